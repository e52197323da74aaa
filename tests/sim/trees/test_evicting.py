"""Trees that are forgotten and found again. Spec: tree_layer 11."""

from __future__ import annotations

from mesh.model.tree_apps import (
    TreeEvicted,
)
from mesh.trees.settings import (
    Settings,
)
from tests.sim.trees.rules import (
    check_call,
    inside,
)
from tests.sim.trees.scenes import (
    LINE,
    ask,
    hold_answers,
    world,
)
from tests.sim.trees.world import (
    World,
    address,
)


def test_44_three_trees_in_a_cache_of_two() -> None:
    """Spec: tree_layer 11 (44)."""
    mesh = World(LINE, settings=Settings(ping_ms=0, trees_max=2))
    mesh.run()
    for tree in "tuv":
        mesh.role("c", "r", tree=tree), mesh.role("b", "r", tree=tree)
        mesh.run()
    for tree in "tuv" * 3:
        call = mesh.send("a", "r", tree=tree)
        mesh.run()
        assert call.reached == ["b", "c"]
        assert len(inside(mesh, "b").trees) <= 2
    hold_answers(mesh)
    mesh.send("a", "r", tree="t")
    mesh.run(for_ms=400)
    pinned = address("t", "r").tree
    mesh.step("b", TreeEvicted("", pinned))
    assert pinned in inside(mesh, "b").trees


def test_45_forgotten_everywhere_and_found_again() -> None:
    """Spec: tree_layer 11 (45)."""
    mesh = world(roles="c")
    ask(mesh, "a")
    for node in "abc":
        mesh.step(node, TreeEvicted("", address("t", "r").tree))
    call = mesh.send("a", "r")
    mesh.run()
    check_call(mesh, call)
