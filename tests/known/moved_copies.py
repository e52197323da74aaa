"""What a mover has sent can neither be repaired nor is its loss made good.

Frames that carry messages of a queue from its home to a proxy vanish from the outbox. Asked for,
they are told as lost, although the home's own endpoint has them still.
"""

from __future__ import annotations

from mesh.config.topology_file import topology_from_mapping
from mesh.transport.port import TopicPartition
from tests.component.in_memory_mesh import Mesh
from tests.sim.queue_stage import CHAIN, HOME, Stage

POINT = "moved messages whose frames vanish"
OUTBOX, KAFKA = "mesh.r.to.s.g", "two"


def run(*, vanish: bool = True) -> str:
    """Return what is wrong, or nothing."""
    stage = Stage(Mesh(topology_from_mapping({**CHAIN, **HOME})))
    stage.queue("p", "r", "s")
    stage.consume("s")
    stage.publish("p", 10)
    stage.until(lambda: len(stage.got) == stage.published)
    world = stage.mesh.world
    world.cut("s", ["r"])
    stage.publish("p", 20)
    for _ in range(10):
        stage.step()
    kafka = world.kafka[KAFKA]
    for log in kafka.topics[OUTBOX].logs if vanish else ():
        kafka.truncate(TopicPartition(OUTBOX, log.partition), 1)
    world.cut("s", [])
    for _ in range(5):
        stage.publish("p", 10)
        for _ in range(30):
            stage.step()
    wanted = {b"%d" % number for number in range(stage.published)}
    lacks = sorted(wanted - {payload for _, payload in stage.got})
    stage.mesh.close()
    held = stage.held("r")
    return f"{len(lacks)} messages reach no consumer; r had all {held}" if lacks else ""
