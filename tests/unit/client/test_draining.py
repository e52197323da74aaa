"""Whether outboxes are read to their ends. Spec: K24, K28."""

from __future__ import annotations

from mesh.client.draining import Drain
from mesh.client.health.progress import Progresses
from mesh.runtime.topics.provision import node_topics
from tests.unit.client.conftest import Mesh

OUTBOX = "mesh.a.to.b.g"


def test_an_outbox_that_was_made_anew_is_not_taken_for_read(mesh: Mesh) -> None:
    """What its reader has passed were offsets of the former topic. Spec: K4, K9."""
    mesh.subscribe("c", "orders", ">")
    for number in range(20):
        mesh.publish("a", "x", b"%d" % number)
    mesh.pause(1)
    kafka = mesh.world.kafka
    readers = {name: one.reader("drain") for name, one in kafka.items()}
    progresses = Progresses(mesh.topology, kafka)
    progresses.read()
    assert Drain([("a", "b")], mesh.topology, kafka, readers).behind(progresses) == {}
    kafka["left"].delete_topic(OUTBOX)
    kafka["left"].admin().create([t for t in node_topics(mesh.topology, "a") if t.name == OUTBOX])
    writer = kafka["left"].writer("x")
    for partition in range(4):
        writer.produce(OUTBOX, b"new", None, partition)
    writer.flush()
    behind = Drain([("a", "b")], mesh.topology, kafka, readers).behind(progresses)
    assert behind == {("a", "b"): 4}
