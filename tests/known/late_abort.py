"""The order of a change's stages is written three times, and not alike.

A node that has switched and reads an abort goes on as the driver does not: nodes take it in the
order in which it comes, whoever watches takes the later stage. One order, in the model, is wanted.
"""

from __future__ import annotations

from mesh.model.control import Stage
from tests.sim.changing import ChangedMesh
from tests.sim.test_changes import multi_hop, topology

POINT = "an abort that comes behind a switch"


def run() -> str:
    """Return what is wrong, or nothing."""
    mesh = ChangedMesh(topology(Z=multi_hop("ab", "bc")), seed=3)
    target = topology(Z=multi_hop("ab", "ac"))
    mesh.number += 1
    mesh.say(Stage.HOLD, target, ["a", "b", "c"])
    mesh.await_done(Stage.HOLD)
    mesh.await_drained()
    mesh.say(Stage.SWITCH, target, ["a", "b", "c"])
    mesh.await_done(Stage.SWITCH, load=False)
    assert _reading(mesh) == []
    mesh.say(Stage.ABORT, target, ["a", "b", "c"])
    mesh.run(5_000)
    if reads := _reading(mesh):
        return f"{reads} read their clients again in the middle of the change"
    return ""


def _reading(mesh: ChangedMesh) -> list[str]:
    """Return the nodes that read what clients publish."""
    lanes = {node: worker.lanes for node, worker in mesh.world.workers.items()}
    return [
        node for node, one in lanes.items() if one is not None and not one.sources.still.holding
    ]
