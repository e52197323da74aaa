"""An abort that somebody writes behind a switch is the older word for everybody.

Nodes that went by the order in which words come read their clients again in the middle of a change,
while drivers and whoever watches saw the switch. Spec: K28.
"""

from __future__ import annotations

from mesh.model.control import Stage
from tests.sim.changing import ChangedMesh
from tests.sim.test_changes import multi_hop, topology


def reading(mesh: ChangedMesh) -> list[str]:
    """Return the nodes that read what clients publish."""
    lanes = {node: worker.lanes for node, worker in mesh.world.workers.items()}
    return [node for node, one in lanes.items() if one is not None and not one.sources.gate.holding]


def test_a_switch_is_not_taken_back() -> None:
    mesh = ChangedMesh(topology(Z=multi_hop("ab", "bc")), seed=3)
    target = topology(Z=multi_hop("ab", "ac"))
    mesh.number += 1
    mesh.say(Stage.HOLD, target, ["a", "b", "c"])
    mesh.await_done(Stage.HOLD)
    mesh.await_drained()
    mesh.say(Stage.SWITCH, target, ["a", "b", "c"])
    mesh.await_done(Stage.SWITCH, load=False)
    assert reading(mesh) == []
    mesh.say(Stage.ABORT, target, ["a", "b", "c"])
    mesh.run(5_000)
    assert reading(mesh) == []
    mesh.say(Stage.RUN, target, ["a", "b", "c"])
    mesh.await_done(Stage.RUN)
    assert reading(mesh) == ["a", "b", "c"]
    assert all(worker.topology == target for worker in mesh.world.workers.values())
