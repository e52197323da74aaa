"""A control topic loses its end, as in an election of a broker that lags. Spec: K4, K23, K24, R9."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mesh.model.inputs import Input
from mesh.transport.port import TopicPartition
from mesh.wire.control import decode_acknowledgement
from mesh.wire.keys import subscribed_key
from mesh.worker.control.leadership import Leadership
from tests.component.worker.conftest import CHAIN, SmallMesh, subject
from tests.said import Said


def is_known_everywhere(mesh: SmallMesh, node: str, version: int) -> bool:
    records = mesh.read(mesh.names.control(node))
    told = [record.value() for record in records if record.key() == subscribed_key()]
    return decode_acknowledgement(told[-1] or b"").complete == version


@pytest.mark.parametrize("later_ms", [100, 600])
@pytest.mark.parametrize("lost", [4, 10, 14])
@pytest.mark.parametrize("kind", ["multi-hop", "external"])
def test_nothing_that_was_acknowledged_is_taken_back(kind: str, lost: int, later_ms: int) -> None:
    """Marks of long ago prove what was offered then; the neighbour is about to write again."""
    mesh = SmallMesh({**CHAIN, "zones": {"Z": {"kind": kind, "links": [["b", "c"]]}}})
    mesh.subscribe("c", "s", ">", None)
    mesh.run(10_000)
    mesh.subscribe("c", "f", "y/>")
    mesh.world.run_until(lambda: is_known_everywhere(mesh, "c", 2), 2_000)
    mesh.run(later_ms)
    mesh.kafka.truncate(TopicPartition(mesh.names.control("c"), 0), lost)
    for number in range(40):
        mesh.write("mesh.b.in.g", b"%d" % number, headers=[subject("y/1")])
        mesh.run(30)
    mesh.run(40_000)
    got = {record.value() for record in mesh.read(mesh.names.endpoint("c", "f"))}
    assert got == {b"%d" % number for number in range(40)}


def test_who_a_node_is_can_be_lost_before_anybody_has_read_it(
    said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its leader writes it again: other workers of the node learn from it alone who they are."""
    follow = Leadership.follow
    ends: list[int] = []

    def following(self: Leadership, *, is_due: bool, now_ms: int) -> Iterator[Input]:
        yield from follow(self, is_due=is_due, now_ms=now_ms)
        if self.node == "c" and self.is_ours and not ends:
            control = TopicPartition("mesh.c.control", 0)
            ends.append(self.home.truncate(control, 1))

    monkeypatch.setattr(Leadership, "follow", following)
    mesh = SmallMesh()
    assert ends == [0]
    lost = {"log_level": "warning", "topics": ["mesh.c.control"]}
    assert lost in said.of("control.cut_off")
    mesh.world.start("c", 1)
    mesh.run()
    assert mesh.world.workers["c#1"].is_ready


def test_what_was_acknowledged_is_told_again_if_it_is_lost_unread(mesh: SmallMesh) -> None:
    """The neighbour's position is inside of the log all the time: it cannot miss anything."""
    stream = TopicPartition(mesh.names.to_control("c", "b"), 0)
    mesh.world.cut("b", ["c"])
    [log] = mesh.kafka.topics[stream.topic].logs
    read = log.end
    mesh.subscribe("b", "t", "y/>")
    mesh.run(1_500)
    while log.end > read:
        mesh.kafka.truncate(stream, 1)
    mesh.world.cut("b", [])
    mesh.run(10_000)
    assert is_known_everywhere(mesh, "b", 0)
