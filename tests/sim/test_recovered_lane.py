"""A lane that was recovered at a switch goes by the new links, as one that lived does.

A worker dies at the switch of a change that makes its link another one. What was sent over the old
link went other ways before: a repair over the new one begins where the new one began. So a lane
keeps the number of the link over which it has sent. Spec: K12, K20, K28.
"""

from __future__ import annotations

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.model.control import Stage
from mesh.model.frames import MessageClass
from mesh.model.record_headers import SUBJECT_HEADER
from mesh.transport.port import TopicPartition
from tests.sim.changing import ChangedMesh

NODES = {"kafka": {"k": {}}, "nodes": {name: {} for name in "yzab"}}
BEFORE = {
    "X": {"kind": "external", "links": [["y", "z"], ["y", "b"], ["a", "b"]]},
    "M": {"kind": "multi-hop", "links": [["z", "a"]]},
}
AFTER = {
    "X": {"kind": "external", "links": [["y", "z"]]},
    "M": {"kind": "multi-hop", "links": [["z", "a"], ["a", "b"]]},
}
OUTBOX = "mesh.a.to.b.g"


def publish(mesh: ChangedMesh, node: str, value: bytes) -> None:
    topic = mesh.names.ingress(node, MessageClass.GUARANTEED)
    mesh.write(node, topic, value, None, headers=[(SUBJECT_HEADER, b"x")])


@pytest.mark.parametrize("dies", ["never", "before the change", "at the switch"])
def test_a_repair_begins_where_the_new_link_began(dies: str) -> None:
    """Else what had come another way comes again, or is told as lost."""
    mesh = ChangedMesh(topology_from_mapping({**NODES, "zones": BEFORE}), seed=3)
    publish(mesh, "z", b"z0")
    for value in (b"y1", b"y2"):
        mesh.run(1_000)
        publish(mesh, "y", value)
    mesh.run(2_000)
    if dies == "before the change":
        mesh.world.kill("a")
        mesh.world.start("a")
        mesh.run(5_000)
    target, holding = topology_from_mapping({**NODES, "zones": AFTER}), list(mesh.topology.nodes)
    mesh.number += 1
    for stage in (Stage.HOLD, Stage.SWITCH, Stage.RUN):
        mesh.say(stage, target, holding)
        if dies == "at the switch" and stage is Stage.SWITCH:
            mesh.world.kill("a")  # it has not read it yet
            mesh.world.start("a")
        mesh.await_done(stage, load=False)
    mesh.run(3_000)
    mesh.world.cut("b", ["a"])
    publish(mesh, "y", b"y3")
    mesh.run(2_000)
    kafka = mesh.world.kafka["k"]
    log = next(one for one in kafka.topics[OUTBOX].logs if one.entries)
    kafka.truncate(TopicPartition(OUTBOX, log.partition), 1)
    mesh.world.cut("b", [])
    mesh.run(1_000)
    publish(mesh, "y", b"y4")
    mesh.run(25_000)
    came = [record.value() for record in mesh.delivered("b")]
    assert came == [b"z0", b"y1", b"y2", b"y3", b"y4"]
