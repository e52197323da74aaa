"""One instance of several: the nearest, and another if that one is gone. Spec: tree_layer 11."""

from __future__ import annotations

from tests.sim.trees.rules import (
    inside,
)
from tests.sim.trees.scenes import (
    STAR,
    ask,
    kinds,
    world,
)
from tests.sim.trees.world import (
    address,
)


def test_18_19_one_instance_tries_on() -> None:
    """Spec: tree_layer 11 (18, 19), H18."""
    mesh = world(STAR, roles="bcd")
    ask(mesh, "a")
    assert len(ask(mesh, "a", one_instance=True).reached) == 1
    role = inside(mesh, "a").trees[address("t", "r").tree].roles["r"]
    node_b = inside(mesh, "b")
    node_b.hosted.clear()  # the table of a is stale from here on
    call = mesh.send("a", "r", one_instance=True)
    mesh.run()
    assert call.reached in (["c"], ["d"])
    assert sum(last for _, last in kinds(call)) == 1
    for node in "cd":
        inside(mesh, node).hosted.clear()
    inside(mesh, "f").hosted[address("t", "r").tree] = {}
    mesh.role("f", "q")
    assert role.everywhere.routes
    call = mesh.send("a", "r", one_instance=True)
    mesh.run()
    assert kinds(call) == [("not_found", True)]
