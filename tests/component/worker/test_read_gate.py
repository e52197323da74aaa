"""A link that has a rate carries no more, and slows nobody else. Spec: R14."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.errors import ConfigError
from mesh.lab.world import World
from mesh.model.frames import MessageClass
from mesh.model.reasons import NotRead, sentence
from mesh.transport.port import TopicPartition
from mesh.wire.keys import PauseKey
from mesh.worker.lanes.read_gate import ReadGate
from mesh.worker.lanes.token_bucket import TokenBucket
from tests.component.worker.conftest import SmallMesh, subject

STAR = {
    "kafka": {"k": {}},
    "nodes": {"a": {"partitions": 1}, "b": {"partitions": 1}, "c": {"partitions": 1}},
    "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["a", "c"]]}},
}
RATE = 10_000
RUNBOOKS = Path(__file__).parents[3] / "docs/runbooks.md"


def test_a_bucket_gives_its_rate_and_a_second_at_once() -> None:
    bucket = TokenBucket(1_000)
    assert bucket.take(1_000, 0) == 0
    assert bucket.take(500, 0) == 501  # paid back in half a second, and rounded up
    assert bucket.take(0, 501) == 0
    assert bucket.take(1_000, 60_000) == 0  # what was not used for long is one second's worth
    assert bucket.take(1, 60_000) > 0


def why(gate: ReadGate, node: str, neighbour: str, at: TopicPartition, now_ms: int) -> str:
    return gate.why_of_link(node, neighbour, at, 0, now_ms) or ""


def test_of_several_reasons_the_first_is_told() -> None:
    """Each has its sentence."""
    at = TopicPartition("t", 0)
    gate = ReadGate(
        holding=True,
        isolated=["b"],
        shut=frozenset({"b"}),
        paused=frozenset({PauseKey("a", "b")}),
        refusing=frozenset({0}),
        resting={at: 100},
        waiting={at: None},
        committing=frozenset({0}),
        meeting={0: None},
        identifying={at: None},
    )
    ends = {
        NotRead.COMMITTING: lambda: setattr(gate, "committing", frozenset()),
        NotRead.MEETING: gate.meeting.clear,
        NotRead.HOLDING: lambda: setattr(gate, "holding", False),
        NotRead.FULL: lambda: setattr(gate, "refusing", frozenset()),
        NotRead.SUBJECT: gate.waiting.clear,
        NotRead.LINK: lambda: setattr(gate, "shut", frozenset()),
        NotRead.CUT: lambda: setattr(gate, "isolated", []),
        NotRead.PAUSED: lambda: setattr(gate, "paused", frozenset()),
        NotRead.RATE: gate.resting.clear,
        NotRead.IDENTITY: gate.identifying.clear,
    }
    assert list(ends) == list(NotRead)
    of_link = {NotRead.LINK, NotRead.CUT, NotRead.PAUSED, NotRead.RATE}
    for reason, end in ends.items():
        if reason in of_link:
            assert why(gate, "a", "b", at, 0) == reason
        else:
            assert gate.why(at, 0, is_guaranteed=True) is reason
        assert sentence(reason)
        end()
    assert gate.why(at, 0, is_guaranteed=True) is None
    assert why(gate, "a", "b", at, 0) == ""


def test_the_runbook_says_what_each_reason_means() -> None:
    page = RUNBOOKS.read_text(encoding="utf-8")
    assert [one for one in NotRead if f"| `{one}` | {sentence(one)} |" not in page] == []


def test_what_rests_wakes_when_it_is_time() -> None:
    at = TopicPartition("t", 0)
    gate = ReadGate(resting={at: 100})
    assert why(gate, "a", "b", at, 99)
    assert not gate.wake(99)
    assert not why(gate, "a", "b", at, 100)
    assert gate.wake(100)
    assert not gate.resting


def test_pauses_are_of_one_direction_and_perhaps_of_one_partition() -> None:
    whole, part = PauseKey("a", "b"), PauseKey("a", "c", 1)
    gate = ReadGate(paused=frozenset({whole, part}))
    zero, one = TopicPartition("t", 0), TopicPartition("t", 1)
    assert [why(gate, "a", "b", at, 0) for at in (zero, one)] == ["paused", "paused"]
    assert [why(gate, "a", "c", at, 0) for at in (zero, one)] == ["", "paused"]
    assert not why(gate, "b", "a", one, 0)


def star(limits: list[object]) -> SmallMesh:
    mesh = SmallMesh.__new__(SmallMesh)
    mesh.world = World(topology_from_mapping({**STAR, "limits": limits}), seed=3)
    mesh.names = SmallMesh().names
    for node in "abc":
        mesh.world.start(node)
    for node in "bc":
        mesh.subscribe(node, "s", ">")
    mesh.run()
    return mesh


@pytest.mark.parametrize("ends", [["a", "b"], ["b", "a"]])
def test_only_the_link_with_the_rate_lags(ends: list[str]) -> None:
    mesh = star([{"link": ends, "bytesPerSecond": RATE}])
    ingress = mesh.names.ingress("a", MessageClass.GUARANTEED)
    began = mesh.world.clock.ms
    for number in range(60):
        mesh.write(ingress, b"%04d" % number + b"x" * 996, headers=[subject("x")])
        mesh.run(20)
    mesh.run(500)
    slow = mesh.read(mesh.names.endpoint("b", "s"))
    fast = mesh.read(mesh.names.endpoint("c", "s"))
    assert len(fast) == 60
    seconds = (mesh.world.clock.ms - began) / 1000
    assert 0 < len(slow) * 1000 <= RATE * (seconds + 1) + 4_000
    mesh.run(8_000)
    slow = mesh.read(mesh.names.endpoint("b", "s"))
    values = [(record.value() or b"")[:4] for record in slow]
    assert len(values) == 60
    assert all(one < other for one, other in pairwise(values))


def test_a_limit_is_of_a_link_that_exists_and_once() -> None:
    for limits, told in (
        ([{"link": ["b", "c"], "bytesPerSecond": 1}], "b and c are not linked"),
        ([{"link": ["a", "d"], "bytesPerSecond": 1}], "no node is called 'd'"),
        ([{"link": ["a", "b"], "bytesPerSecond": 0}], "bytesPerSecond"),
        ([{"link": ["a", "b"]}], "limits nothing"),
        ([{"link": ["a", "b"], "outboxBytes": 1}], "say with whenFull"),
        ([{"link": ["a", "b"], "bytesPerSecond": 1, "whenFull": "stop"}], "speaks of outboxBytes"),
        ([{"link": ["a", "b"], "outboxBytes": 1, "whenFull": "drop"}], "whenFull"),
        ([{"link": ["a", "b"], "outboxAge": "soon", "whenFull": "stop"}], "not a duration"),
        ([{"link": ["a", "b"], "bytesPerSecond": 1}] * 2, "has limits already, as limits[0]"),
    ):
        with pytest.raises(ConfigError) as refused:
            topology_from_mapping({**STAR, "limits": limits})
        assert told in str(refused.value)
