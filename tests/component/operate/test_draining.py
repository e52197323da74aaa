"""Whether outboxes are read to their ends. Spec: K24, K28."""

from __future__ import annotations

from mesh.operate.changes.draining import OutboxDrain
from mesh.transport.node_topics import node_topics
from mesh.view.lane_reports import LaneReports
from tests.component.in_memory_mesh import Mesh

OUTBOX = "mesh.a.to.b.g"


def test_an_outbox_that_was_recreated_is_not_taken_for_read(mesh: Mesh) -> None:
    """What its reader has passed were offsets of the former topic. Spec: K4, K9."""
    mesh.subscribe("c", "orders", ">")
    for number in range(20):
        mesh.publish("a", "x", b"%d" % number)
    mesh.pause(1)
    kafka = mesh.world.kafka
    readers = {name: one.reader("drain") for name, one in kafka.items()}
    reports = LaneReports(mesh.topology, kafka)
    reports.read()
    drain = OutboxDrain([[("a", "b")]], mesh.topology, kafka, readers)
    drain.mark([("a", "b")])
    assert drain.behind(reports) == {}
    kafka["left"].delete_topic(OUTBOX)
    kafka["left"].admin().create([t for t in node_topics(mesh.topology, "a") if t.name == OUTBOX])
    writer = kafka["left"].writer("x")
    for partition in range(4):
        writer.produce(OUTBOX, b"new", None, partition)
    writer.flush()
    for made in (drain, OutboxDrain([[("a", "b")]], mesh.topology, kafka, readers)):
        made.mark([("a", "b")])
        assert made.behind(reports) == {("a", "b"): 4}


def test_an_outbox_is_looked_at_again_if_it_has_grown_when_its_turn_comes(mesh: Mesh) -> None:
    """Markers behind the last record count for nothing, and records behind those do. K28."""
    mesh.subscribe("c", "orders", ">")
    mesh.publish("a", "x", b"1")
    mesh.pause(1)
    kafka = mesh.world.kafka
    readers = {name: one.reader("drain") for name, one in kafka.items()}
    reports = LaneReports(mesh.topology, kafka)
    reports.read()
    drain = OutboxDrain([[("b", "a")], [("a", "b")]], mesh.topology, kafka, readers)
    drain.mark([("b", "a")])
    assert drain.behind(reports) == {}
    mesh.publish("a", "x", b"2")
    mesh.pause(1)  # b has read it, and we have not heard of that
    drain.mark([("a", "b")])
    assert drain.behind(reports) == {("a", "b"): 1}
    reports.read()
    assert drain.behind(reports) == {}


def test_what_an_open_transaction_hides_is_waited_for(mesh: Mesh) -> None:
    """Other outboxes are looked at meanwhile. Spec: K28."""
    mesh.subscribe("c", "orders", ">")
    kafka = mesh.world.kafka
    readers = {name: one.reader("drain") for name, one in kafka.items()}
    reports = LaneReports(mesh.topology, kafka)
    writer = kafka["left"].writer("x", "open")
    writer.begin()
    writer.produce(OUTBOX, b"hidden", None, 2)
    writer.flush()
    reports.read()
    drain = OutboxDrain([[("a", "b"), ("b", "c")]], mesh.topology, kafka, readers)
    drain.mark([("a", "b"), ("b", "c")])
    assert drain.behind(reports) == {("a", "b"): 1}
    writer.abort()
    assert drain.behind(reports) == {}
