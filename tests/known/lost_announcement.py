"""An announcement of a loss stands in the outbox alone, and vanishes with it.

The ingress of a loses its end, and goes on with other messages under the offsets that were lost.
An operator accepts that; the frame that tells of it vanishes before b has read it, with the first
messages behind it. b takes their offsets for those that it has, and asks for nothing.
"""

from __future__ import annotations

from mesh.codec.control import encode_stop
from mesh.codec.keys import accept_key
from mesh.transport.port import TopicPartition
from tests.component.runtime.conftest import SmallMesh, subject

POINT = "an announcement that vanishes with its outbox"
OUTBOX, INGRESS = "mesh.a.to.b.g", "mesh.a.in.g"
BEFORE, LATER, LAST = (b"0", b"1", b"2", b"3"), (b"4", b"5"), (b"6", b"7")


def _publish(mesh: SmallMesh, values: tuple[bytes, ...]) -> None:
    for value in values:
        mesh.publish(value, [subject("x")])


def run(*, vanishes: bool = True) -> str:
    """Return what is wrong, or nothing."""
    mesh = SmallMesh()
    _publish(mesh, BEFORE)
    mesh.run()
    mesh.world.cut("b", ["a"])
    read = mesh.kafka.topics[OUTBOX].logs[0].end
    mesh.kafka.truncate(TopicPartition(INGRESS, 0), len(BEFORE) - len(LATER))
    mesh.run(6_000)
    lanes = mesh.world.workers["a"].lanes
    assert lanes is not None
    stop = lanes.owned[0].positions.stopped[TopicPartition(INGRESS, 0)]
    _publish(mesh, LATER)
    mesh.write(mesh.names.config(), encode_stop(stop), key=accept_key("a", INGRESS, 0))
    mesh.run(3_000)
    if vanishes:
        mesh.kafka.truncate(TopicPartition(OUTBOX, 0), read)
    mesh.world.cut("b", [])
    mesh.run(3_000)
    _publish(mesh, LAST)
    mesh.run(60_000)
    came = [record.value() for record in mesh.delivered()]
    lacks = [value for value in (*BEFORE, *LATER, *LAST) if value not in came]
    return f"c/s lacks {lacks}, and was told of no loss" if lacks else ""
