"""No turn of a worker waits for a broker that is late or away, whatever stands beside its lanes.

Spec: DESIGN 4.2, K20. Every question and every client costs a second here; what is asked and opened
beside the loop makes no turn longer. Ends of transactions are the loop's own still.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import pytest

from mesh.config.published import published_text
from mesh.config.topology_file import topology_from_mapping
from mesh.lab.world import World
from mesh.model.control import Change, Pause, Stage
from mesh.model.frames import MessageClass
from mesh.model.topology import Topology
from mesh.transport.memory_faults import MemoryFaults
from mesh.transport.port import TopicPartition
from mesh.view.disabling import ends_of, write_disabled
from mesh.wire.control import decode_identity, encode_change, encode_config
from mesh.wire.keys import change_key, config_key
from mesh.worker.limits import outboxes
from tests.component.worker.conftest import CHAIN, SmallMesh, subject
from tests.sim.late_commits import LateCommits
from tests.sim.swarm.faults import Beside, aside

LATE_MS = 1_000


class Costs(MemoryFaults):
    """Adds up what the calls of one turn wait for."""

    def __init__(self) -> None:
        self.beside = False
        self.waited_ms = self.waits_beside = 0

    def costs(self, what: str, ms: int) -> None:
        if what.startswith("read mesh-"):  # the intake has a thread of its own
            return
        if self.beside:
            self.waits_beside += ms > 0
        else:
            self.waited_ms += ms


def small_mesh(more: Mapping[str, object]) -> tuple[SmallMesh, Costs]:
    costs = Costs()
    commits = LateCommits(lambda: 0, lambda: False, aside=partial(aside, costs))
    mesh = SmallMesh(
        {**CHAIN, **more}, errands=lambda: Beside(faults=costs), commits=lambda: commits
    )
    mesh.kafka.faults = costs
    return mesh, costs


@contextmanager
def late(mesh: SmallMesh, costs: Costs, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have every broker answer late, and every turn not wait for it."""
    turn = World._turn

    def judged(world: World, name: str) -> None:
        costs.waited_ms = 0
        turn(world, name)
        assert not costs.waited_ms, f"a turn of {name} waited {costs.waited_ms} ms"

    monkeypatch.setattr(World, "_turn", judged)
    mesh.kafka.answers_after_ms = LATE_MS
    yield
    mesh.kafka.answers_after_ms = 0
    assert costs.waits_beside > 0


def publish(mesh: SmallMesh, numbers: range) -> None:
    for number in numbers:
        mesh.publish(b"%03d" % number + b"x" * 97, [subject("x")])


def say(mesh: SmallMesh, stage: Stage, target: Topology) -> None:
    text = published_text(target)
    if stage is Stage.RUN:
        mesh.write(mesh.names.config(), encode_config(1, text), key=config_key())
    mesh.write(mesh.names.config(), encode_change(Change(1, stage, text)), key=change_key())
    mesh.run(10_000)


def numbers(mesh: SmallMesh, topic: str) -> list[int]:
    return [int((one.value() or b"-1")[:3]) for one in mesh.read(topic) if one.value()]


def a_full_link(mesh: SmallMesh) -> None:
    """Backlogs: how far outboxes go."""
    mesh.world.cut("b", ["a"])
    publish(mesh, range(50))
    mesh.run(5_000)
    assert mesh.world.workers["a"].background.backlogs.full
    mesh.world.cut("b", [])
    mesh.run(20_000)


def a_full_endpoint(mesh: SmallMesh) -> None:
    """Endpoint backlogs, and the catch-up of what was held."""
    topic = mesh.names.endpoint("c", "small")
    mesh.subscribe("c", "small", ">")
    mesh.run(5_000)
    publish(mesh, range(50))
    mesh.run(12_000)
    assert mesh.world.workers["c"].background.backlogs._endpoints.full
    logs = mesh.kafka.topics[topic].logs
    mesh.kafka.commit_group("g", {TopicPartition(topic, log.partition): log.end for log in logs})
    publish(mesh, range(50, 60))
    mesh.run(30_000)
    assert numbers(mesh, topic) == list(range(60))


def a_displaced_endpoint(mesh: SmallMesh) -> None:
    """The oldest become dead letters, and are deleted."""
    mesh.subscribe("c", "old", ">")
    mesh.run(5_000)
    for number in range(50):
        publish(mesh, range(number, number + 1))
        mesh.run(100)
    mesh.run(20_000)
    letters = mesh.dead_letters("c")
    kept = numbers(mesh, mesh.names.endpoint("c", "old"))
    assert letters
    assert [int((one.value() or b"")[:3]) for one in letters] + kept == list(range(50))


def a_held_endpoint(mesh: SmallMesh) -> None:
    """A catch-up, and the search for the one record that is refused."""
    topic = mesh.names.endpoint("c", "s")
    mesh.kafka.topics[topic].message_bytes_max = 1_000
    publish(mesh, range(5))
    mesh.publish(b"998" + b"x" * 3_000, [subject("x")])
    publish(mesh, range(5, 10))
    mesh.run(120_000)
    assert numbers(mesh, topic) == list(range(10))
    assert len(mesh.dead_letters("c")) == 1


def a_repair(mesh: SmallMesh) -> None:
    """A frame that vanished is sent again."""
    outbox = mesh.names.outbox("a", "b", MessageClass.GUARANTEED)
    mesh.world.cut("b", ["a"])
    publish(mesh, range(5))
    mesh.run(2_000)
    log = mesh.kafka.topics[outbox].logs[0]
    for index in range(len(log.entries)):
        log.entries[index] = None
    mesh.world.cut("b", [])
    publish(mesh, range(5, 10))
    mesh.run(20_000)
    assert numbers(mesh, mesh.names.endpoint("c", "s")) == list(range(10))


def a_queue_that_moves(mesh: SmallMesh) -> None:
    """Who consumes, how much waits, and a mover that joins the group."""
    value = json.dumps({"kind": "queue", "policy": "any"}).encode()
    for node in "ac":
        mesh.subscribe(node, "jobs", "work/>", value)
    mesh.run(10_000)
    for number in range(20):
        mesh.publish(b"%03d" % number, [subject("work/x")])
    mesh.run(5_000)
    topic = mesh.names.endpoint("c", "jobs")
    consumer = mesh.kafka.consumer("client", topic, topic)
    found: list[int] = []
    has_moved = False
    for _ in range(400):
        mesh.run(100)
        has_moved = has_moved or bool(mesh.world.workers["a"].background.movers.members)
        found += [int(one.value() or b"-1") for one in consumer.read(0.0, 100)]
        if len(found) == 20:
            break
    assert sorted(found) == list(range(20))
    assert has_moved


def a_disabled_link(mesh: SmallMesh) -> None:
    """What the other end wanted at last is looked up, and messages wait by it."""
    for why in (Pause(), None):
        assert not write_disabled(mesh.world.topology, mesh.world.kafka, ends_of("a", "b"), why, {})
        mesh.run(5_000)
        publish(mesh, range(5) if why else range(5, 10))
        mesh.run(5_000)
    assert numbers(mesh, mesh.names.endpoint("c", "s")) == list(range(10))


def a_neighbour_that_is_away_at_the_start(mesh: SmallMesh) -> None:
    """Likewise."""
    mesh.world.kill("a")
    mesh.world.cut("a", ["b"])
    mesh.world.start("a")
    mesh.run(20_000)
    publish(mesh, range(5))
    mesh.run(2_000)
    mesh.world.cut("a", [])
    mesh.run(20_000)
    assert numbers(mesh, mesh.names.endpoint("c", "s")) == list(range(5))


def a_standby_that_takes_over(mesh: SmallMesh) -> None:
    """It asks whether somebody else serves, who the node is, and what that had heard."""
    mesh.world.start("b", 1)
    mesh.run(20_000)
    assert mesh.world.workers["b#1"].is_ready
    mesh.world.kill("b", 0)
    publish(mesh, range(5))
    mesh.run(20_000)
    assert numbers(mesh, mesh.names.endpoint("c", "s")) == list(range(5))


def a_link_that_moves(mesh: SmallMesh) -> None:
    """The node tells who it is by its new links."""
    zones = {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["a", "c"]]}}
    target = topology_from_mapping({**CHAIN, "zones": zones})
    for stage in (Stage.HOLD, Stage.SWITCH, Stage.RUN):
        say(mesh, stage, target)
    identities = [one for one in mesh.read(mesh.names.control("a")) if one.key() == b"identity"]
    topics = [topic.name for topic in decode_identity(identities[-1].value() or b"").topics]
    assert mesh.names.outbox("a", "c", MessageClass.GUARANTEED) in topics
    publish(mesh, range(5))
    mesh.run(5_000)
    assert numbers(mesh, mesh.names.endpoint("c", "s")) == list(range(5))


SCENES: list[tuple[Callable[[SmallMesh], None], Mapping[str, object]]] = [
    (a_full_link, {"limits": [{"link": ["a", "b"], "outboxBytes": 2_000, "whenFull": "stop"}]}),
    (a_full_endpoint, {"limits": [{"endpoint": "small", "bytes": 2_000, "whenFull": "stop"}]}),
    (a_displaced_endpoint, {"limits": [{"endpoint": "old", "bytes": 2_000, "whenFull": "dead-letter"}]}),
    (a_held_endpoint, {"quarantineAfter": 2}),
    (a_repair, {}),
    (a_queue_that_moves, {}),
    (a_disabled_link, {}),
    (a_neighbour_that_is_away_at_the_start, {}),
    (a_standby_that_takes_over, {}),
    (a_link_that_moves, {}),
]  # fmt: skip


@pytest.mark.parametrize(("scene", "more"), SCENES, ids=[one.__name__ for one, _ in SCENES])
def test_no_turn_waits(
    scene: Callable[[SmallMesh], None],
    more: Mapping[str, object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mesh, costs = small_mesh(more)
    with late(mesh, costs, monkeypatch):
        scene(mesh)
    assert mesh.world.troubles == 0


def test_a_call_from_the_loop_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a look at backlogs asks in the loop, as all of them once did."""
    scene, more = SCENES[0]
    mesh, costs = small_mesh(more)
    judge = outboxes.Backlogs._judge_all

    def in_the_loop(self, link_states, now_ms):
        self.home.admin().ends(list(self._asked or ()))
        return judge(self, link_states, now_ms)

    monkeypatch.setattr(outboxes.Backlogs, "_judge_all", in_the_loop)
    with pytest.raises(AssertionError, match="waited"), late(mesh, costs, monkeypatch):
        scene(mesh)
