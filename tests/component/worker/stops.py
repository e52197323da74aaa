"""What a small mesh tells of sources that stand still, and what it announces as lost."""

from __future__ import annotations

import json

from mesh.model.control import Stop
from mesh.model.record_headers import GAP_HEADER, MESH_HEADER
from mesh.transport.port import TopicPartition
from mesh.wire.control import decode_stop, encode_stop
from mesh.wire.keys import accept_key
from tests.component.worker.conftest import SmallMesh, subject

INGRESS = "mesh.a.in.g"
OUTBOX = "mesh.a.to.b.g"


def publish(mesh: SmallMesh, *values: bytes) -> None:
    for value in values:
        mesh.publish(value, [subject("x")])


def stops(mesh: SmallMesh, node: str) -> dict[bytes, Stop]:
    """Return the stops that a node's control topic tells."""
    found: dict[bytes, Stop] = {}
    for record in mesh.read(mesh.names.control(node)):
        if (record.key() or b"").startswith(b"stop "):
            found.pop(record.key(), None)
            if record.value() is not None:
                found[record.key()] = decode_stop(record.value())
    return found


def accept(mesh: SmallMesh, node: str, stop: Stop) -> None:
    key = accept_key(node, stop.topic, stop.partition)
    mesh.write(mesh.names.config(), encode_stop(stop), key=key)
    mesh.run()


def payloads(mesh: SmallMesh) -> list[bytes | None]:
    return [
        record.value()
        for record in mesh.delivered()
        if any(name == MESH_HEADER for name, _ in record.headers() or [])
    ]


def announcements(mesh: SmallMesh) -> list[dict[str, object]]:
    return [
        json.loads(record.headers()[0][1])
        for record in mesh.delivered()
        if record.headers()[0][0] == GAP_HEADER
    ]


def delete_while_down(mesh: SmallMesh, topic: str, node: str, before: int) -> None:
    """Kill a node, publish, and delete what it would read below an offset."""
    mesh.world.kill(node)
    publish(mesh, b"2", b"3", b"4")
    mesh.run(1000)
    mesh.kafka.admin().delete_before({TopicPartition(topic, 0): before})
    mesh.world.start(node)
    mesh.run()
