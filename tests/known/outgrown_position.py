"""A log that was truncated and has outgrown its reader's position is read on from there.

The ingress loses records that were read and routed, and clients write more than was lost, all
while nobody looks. What was written on the offsets that came again is never read.
"""

from __future__ import annotations

from mesh.transport.port import TopicPartition
from tests.component.runtime.conftest import SmallMesh, subject

POINT = "a position outgrown by a truncated ingress"
INGRESS = TopicPartition("mesh.a.in.g", 0)


def run() -> str:
    """Return what is wrong, or nothing."""
    mesh = SmallMesh()
    for number in range(3):
        mesh.publish(b"%d" % number, [subject("x")])
    mesh.run()
    mesh.world.kill("a")
    mesh.kafka.truncate(INGRESS, 2)
    for number in range(3, 7):
        mesh.publish(b"%d" % number, [subject("x")])
    mesh.world.start("a")
    mesh.run(10_000)
    came = [record.value() for record in mesh.delivered()]
    missing = [value for value in (b"3", b"4", b"5", b"6") if value not in came]
    worker = mesh.world.workers["a"]
    assert worker.lanes is not None
    is_told = any(lane.positions.stopped for lane in worker.lanes.owned.values())
    return f"c/s lacks {missing}, and a has not stopped" if missing and not is_told else ""
