"""Selectors on links: decided per message at the sending end, wherever the message comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mesh.core.conditions import Condition
from mesh.lane.messages import transit
from mesh.model.frames import MessageClass
from mesh.model.reasons import Reason
from mesh.transport.port import TopicPartition
from mesh.wire.state import decode_ledger
from tests.component.worker.conftest import CHAIN, SmallMesh, subject
from tests.component.worker.stops import accept, stops

FIRST, SECOND = "mesh.a.to.b.g", "mesh.b.to.c.g"
ORDER = 'headers["kind"] == "order"'
KIND = ("kind", b"order")


def chain(*selectors: Mapping[str, Any]) -> SmallMesh:
    return SmallMesh({**CHAIN, "selectors": list(selectors)})


def on(source: str, target: str, when: str = ORDER) -> Mapping[str, Any]:
    return {"link": [source, target], "from": source, "when": when}


def values(mesh: SmallMesh) -> list[bytes]:
    return sorted(value for one in mesh.delivered() if (value := one.value()) is not None)


def refused(mesh: SmallMesh, node: str) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for record in mesh.read(mesh.names.ledger(node)):
        for one in decode_ledger(record.value()).not_forwarded:
            key = (one.neighbour, one.reason)
            found[key] = found.get(key, 0) + one.messages
    return found


def publish_kinds(mesh: SmallMesh) -> None:
    mesh.publish(b"1", [subject("x"), KIND])
    mesh.publish(b"2", [subject("x"), ("kind", b"quote")])
    mesh.publish(b"3", [subject("x")])
    mesh.publish(b"4", [subject("x"), ("kind", b"\xff"), KIND])
    mesh.publish(b"5", [subject("x"), ("other", b""), KIND])


def test_where_messages_are_published_each_is_asked() -> None:
    """Spec: EMS-14."""
    mesh = chain(on("a", "b"))
    publish_kinds(mesh)
    mesh.run()
    assert values(mesh) == [b"1", b"5"]
    assert refused(mesh, "a") == {("b", Reason.FILTER): 3}


def test_in_transit_each_is_asked_and_the_other_direction_is_not() -> None:
    """Spec: EMS-14."""
    mesh = chain(on("b", "c"), on("b", "a", "false"))
    publish_kinds(mesh)
    mesh.run()
    assert values(mesh) == [b"1", b"5"]
    assert refused(mesh, "b")["c", Reason.FILTER] == 3
    assert ("b", Reason.FILTER) not in refused(mesh, "a")


def test_frames_of_which_all_are_selected_are_handed_on_untouched() -> None:
    """Spec: EMS-14, K10."""
    mesh = chain(on("b", "c"))
    for number in range(20):
        mesh.publish(b"%d" % number, [subject("x"), KIND])
    mesh.run()
    assert len(values(mesh)) == 20
    assert [one.value() for one in mesh.read(FIRST)] == [one.value() for one in mesh.read(SECOND)]


def test_only_frames_for_a_link_that_asks_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A selector on the way back, or of subjects alone, opens no frame. Spec: EMS-14."""
    mesh = chain(on("c", "b"), on("b", "c", 'subject != "y"'))
    monkeypatch.setattr(transit, "_take_apart", None)
    mesh.publish(b"1", [subject("x"), KIND])
    mesh.publish(b"2", [subject("y"), KIND], partition=1)
    mesh.run()
    assert values(mesh) == [b"1"]
    assert refused(mesh, "b")["c", Reason.FILTER] == 1


def test_subjects_are_decided_once_and_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spec: EMS-14."""
    asked: list[str] = []
    holds = Condition.holds

    def counted(self: Condition, subject_: str, headers: Mapping[str, str]) -> bool:
        asked.append(subject_)
        return holds(self, subject_, headers)

    mesh = chain(on("a", "b", 'subject.startsWith("x")'))
    monkeypatch.setattr(Condition, "holds", counted)
    for number in range(50):
        mesh.publish(b"%d" % number, [subject("x")])
    mesh.run()
    assert len(values(mesh)) == 50
    assert asked == ["x"]


def test_a_join_may_have_one_too() -> None:
    """Spec: EMS-14, UM-5."""
    mesh = SmallMesh(
        {
            **CHAIN,
            "zones": {
                "J": {"kind": "join", "from": "a", "to": "b", "filter": "x/>"},
                "Z": {"kind": "multi-hop", "links": [["b", "c"]]},
            },
            "selectors": [on("a", "b")],
        }
    )
    mesh.publish(b"1", [subject("x/y"), KIND])
    mesh.publish(b"2", [subject("x/y")])
    mesh.publish(b"3", [subject("z/y"), KIND])
    mesh.run()
    assert values(mesh) == [b"1"]
    assert refused(mesh, "a") == {("b", Reason.FILTER): 2}


@pytest.mark.parametrize(("source", "target"), [("a", "b"), ("b", "c")])
def test_a_held_link_is_caught_up_by_the_same_answer(source: str, target: str) -> None:
    """What the lane left out is asked when it is read again. Spec: EMS-14, K20."""
    mesh = chain(on(source, target))
    outbox = mesh.names.outbox(source, target, MessageClass.GUARANTEED)
    mesh.publish(b"0", [subject("x"), KIND])
    mesh.run()
    mesh.kafka.topics[outbox].message_bytes_max = 1
    publish_kinds(mesh)
    mesh.run(10_000)
    assert values(mesh) == [b"0"]
    mesh.kafka.topics[outbox].message_bytes_max = 1_000_000
    publish_kinds(mesh)
    mesh.run(20_000)
    assert values(mesh) == [b"0", b"1", b"1", b"5", b"5"]


def test_a_repair_sends_nothing_that_was_refused() -> None:
    """What the outbox lost comes again, by the same answer. Spec: EMS-14, K11, K20."""
    mesh, at = chain(on("a", "b")), TopicPartition(FIRST, 0)
    mesh.publish(b"0", [subject("x"), KIND])
    mesh.run()
    mesh.world.kill("b")
    publish_kinds(mesh)
    mesh.run(1_000)
    mesh.kafka.admin().delete_before({at: mesh.kafka.topics[FIRST].logs[0].end})
    mesh.world.start("b")
    mesh.run()
    [stop] = stops(mesh, "b").values()
    accept(mesh, "b", stop)
    mesh.publish(b"6", [subject("x"), KIND])
    mesh.run()
    assert values(mesh) == [b"0", b"1", b"5", b"6"]
