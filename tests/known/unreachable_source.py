"""Repairs go one after the other, and the first that cannot be read blocks all others.

Two neighbours miss something. What the first misses stood in an outbox of a Kafka cluster that is
away: what the second misses is in the node's own ingress, and waits all the same.
"""

from __future__ import annotations

from mesh.transport.port import TopicPartition
from tests.component.runtime.conftest import SmallMesh, subject

POINT = "a repair behind one whose source cannot be reached"
APART = {
    "kafka": {"k": {}, "far": {}},
    "nodes": {"a": {"kafka": "far"}, "b": {"kafka": "k"}, "c": {"kafka": "k"}},
    "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"]]}},
}
OUTBOX = "mesh.b.to.c.g"


def _publish(mesh: SmallMesh, node: str, value: bytes) -> None:
    kafka = mesh.world.kafka["far" if node == "a" else "k"]
    writer = kafka.writer("client")
    writer.produce(f"mesh.{node}.in.g", value, None, 0, headers=[subject("x")])


def run(*, away: bool = True) -> str:
    """Return what is wrong, or nothing."""
    mesh = SmallMesh(APART)
    for round_ in range(3):
        if round_ == 1:
            mesh.world.cut("c", ["b"])
        if round_ == 2:
            mesh.kafka.truncate(TopicPartition(OUTBOX, 0), 2)
        for node in "ab":
            _publish(mesh, node, f"{node}{round_}".encode())
            mesh.run(2_000)
    mesh.world.kafka["far"].available = not away
    mesh.world.cut("c", [])
    mesh.run(60_000)
    came = [record.value() for record in mesh.delivered()]
    lacks = [value for value in (b"b0", b"b1", b"b2") if value not in came]
    return f"c/s lacks {lacks} after 60 s, which b has in its own ingress" if lacks else ""
