"""Targets of a small mesh that refuse records, and what is written there all the same."""

from __future__ import annotations

from mesh.model.facts import Held
from mesh.model.record_headers import MESH_HEADER
from mesh.wire.deliveries import decode_delivery
from mesh.wire.state import decode_fact
from mesh.worker.lanes.taking import Taken, take_lane
from tests.component.worker.conftest import SmallMesh, subject

STUCK = "mesh.c.ep.s"
OUTBOX = "mesh.b.to.c.g"


def publish(mesh: SmallMesh, *numbers: int) -> None:
    for number in numbers:
        mesh.publish(b"%d" % number, [subject("x")], partition=number % 4)


def numbers(mesh: SmallMesh, topic: str) -> list[int]:
    records = mesh.read(topic)
    assert all(record.headers()[-1][0] == MESH_HEADER for record in records)
    newest: dict[tuple[bytes, int], int] = {}
    for record in records:
        delivery = decode_delivery(record.headers()[-1][1])
        source = (delivery.source.topic_id, delivery.source.partition)
        assert newest.get(source, -1) < delivery.offset
        newest[source] = delivery.offset
    return sorted(int(record.value()) for record in records)


def refuse(mesh: SmallMesh, topic: str, *, is_refusing: bool) -> None:
    mesh.kafka.topics[topic].message_bytes_max = 1 if is_refusing else 1_000_000


def is_held(mesh: SmallMesh, node: str, topic: str) -> bool:
    lanes, held = mesh.world.topology.nodes[node].lanes, {}
    for record in mesh.read(mesh.names.progress(node)):
        fact = decode_fact(record.value())
        if isinstance(fact, Held) and fact.at.topic == topic and record.partition() < lanes:
            held[record.key()] = fact
    return any(not fact.is_over for fact in held.values())


def take_from(mesh: SmallMesh, node: str) -> Taken:
    """Take a lane of a worker that does not hear of it."""
    lanes = mesh.world.workers[node].lanes
    steps = take_lane(lanes.topology, node, 0, mesh.kafka, lanes.recall, mesh.world.clock)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
