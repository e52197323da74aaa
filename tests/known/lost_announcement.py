"""An announcement of a loss stands in the outbox alone, and vanishes with it.

The ingress of a loses records, an operator accepts that, and the frame that tells of it is lost
too, before b reads it. What was lost is then announced by nobody beyond a.
"""

from __future__ import annotations

from mesh.codec.control import encode_stop
from mesh.codec.keys import accept_key
from mesh.model.headers import GAP_HEADER
from mesh.transport.port import TopicPartition
from tests.component.runtime.conftest import SmallMesh, subject

POINT = "an announcement that vanishes with its outbox"
OUTBOX, INGRESS = "mesh.a.to.b.g", "mesh.a.in.g"


def run(*, vanishes: bool = True) -> str:
    """Return what is wrong, or nothing."""
    mesh = SmallMesh()
    mesh.publish(b"0", [subject("x")])
    mesh.run()
    mesh.world.kill("a")
    for number in range(1, 4):
        mesh.publish(b"%d" % number, [subject("x")])
    mesh.kafka.admin().delete_before({TopicPartition(INGRESS, 0): 3})
    mesh.world.start("a")
    mesh.run(6_000)
    if vanishes:
        mesh.world.cut("b", ["a"])
    mesh.run(300)
    lanes = mesh.world.workers["a"].lanes
    assert lanes is not None
    stop = lanes.owned[0].positions.stopped[TopicPartition(INGRESS, 0)]
    mesh.write(mesh.names.config(), encode_stop(stop), key=accept_key("a", INGRESS, 0))
    mesh.run(3_000)
    if vanishes:
        mesh.kafka.delete_topic(OUTBOX)
        mesh.run(5_000)
        mesh.world.cut("b", [])
        mesh.run(5_000)
        others = mesh.world.workers["b"].lanes
        assert others is not None
        for at, lost in others.owned[0].positions.stopped.items():
            key = accept_key("b", at.topic, at.partition)
            mesh.write(mesh.names.config(), encode_stop(lost), key=key)
    mesh.run(10_000)
    mesh.publish(b"4", [subject("x")])
    mesh.run(30_000)
    told = [
        name
        for one in mesh.delivered()
        for name, value in one.headers() or ()
        if INGRESS.encode() in (value or b"")
    ]
    return "" if GAP_HEADER in told else f"c/s was not told that {stop.range} is lost"
