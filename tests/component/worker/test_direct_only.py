"""Direct-only clusters on running nodes: messages, and what is announced of lost ones."""

from __future__ import annotations

import pytest

from mesh.model.frames import FrameKind, MessageClass
from mesh.model.reasons import Reason
from mesh.transport.port import TopicPartition
from mesh.wire.frames import decode_header
from mesh.wire.state import decode_ledger
from tests.component.worker.conftest import CHAIN, SmallMesh, subject
from tests.component.worker.stops import accept, delete_while_down, publish, stops

FIRST, SECOND = "mesh.a.to.b.g", "mesh.b.to.c.g"


def chain(*, direct_only: bool = True) -> SmallMesh:
    """From a over a link of any class to b, and over one of a cluster to c."""
    zones = {
        "Z": {"kind": "multi-hop", "links": [["a", "b"]]},
        "C": {"kind": "cluster", "nodes": ["b", "c"], "directOnly": direct_only},
    }
    return SmallMesh({**CHAIN, "zones": zones})


@pytest.mark.parametrize("direct_only", [True, False])
def test_an_announcement_ends_where_guaranteed_messages_do(direct_only: bool) -> None:
    """In transit, as the messages themselves. Spec: DMR-11, R12."""
    mesh = chain(direct_only=direct_only)
    publish(mesh, b"1")
    mesh.run()
    delete_while_down(mesh, "mesh.a.in.g", "a", 3)
    [stop] = stops(mesh, "a").values()
    accept(mesh, "a", stop)
    kinds = [decode_header(frame.key()).kind for frame in mesh.read(FIRST)]
    assert FrameKind.GAP in kinds
    further = [decode_header(frame.key()).kind for frame in mesh.read(SECOND)]
    assert further == ([] if direct_only else kinds)
    assert bool(mesh.delivered()) is not direct_only


def test_an_announcement_of_the_node_before_the_zone_does_not_leave_it() -> None:
    """Where the loss is b's own, of its ingress. Spec: DMR-11, R12."""
    mesh = chain()
    mesh.write("mesh.b.in.g", b"1", headers=[subject("x")])
    mesh.run()
    mesh.world.kill("b")
    for value in (b"2", b"3"):
        mesh.write("mesh.b.in.g", value, headers=[subject("x")])
    mesh.kafka.admin().delete_before({TopicPartition("mesh.b.in.g", 0): 2})
    mesh.world.start("b")
    mesh.run()
    [stop] = stops(mesh, "b").values()
    accept(mesh, "b", stop)
    assert stops(mesh, "b") == {}
    assert list(mesh.read(SECOND)) == []


def test_what_stays_is_counted_and_direct_messages_come_to_a_guaranteed_endpoint() -> None:
    """Spec: DMR-11, lab.md 2 (`not_forwarded`)."""
    mesh = chain()
    publish(mesh, b"1", b"2")
    direct = mesh.names.ingress("a", MessageClass.DIRECT)
    mesh.write(direct, b"3", headers=[subject("x")])
    mesh.run()
    assert [record.value() for record in mesh.delivered()] == [b"3"]
    counts = [
        (one.neighbour, one.reason, one.messages)
        for record in mesh.read(mesh.names.ledger("b"))
        for one in decode_ledger(record.value()).not_forwarded
        if one.message_class is MessageClass.GUARANTEED and one.neighbour == "c"
    ]
    assert {one[:2] for one in counts} == {("c", Reason.FILTER)}
    assert sum(one[2] for one in counts) == 2
