"""Trees that are forgotten and found again. Spec: tree_layer 11."""

from __future__ import annotations

from random import Random

from mesh.model.tree_apps import RoleWish, TreeEvicted
from mesh.trees.inputs import RolesAdded
from mesh.trees.settings import Settings
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
from tests.sim.trees.world import APP, World, address


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


def test_many_roles_in_a_small_cache_are_all_found() -> None:
    """Ten thousand roles on a thousand trees, of which each node knows two hundred at a time.

    Spec: tree_layer 5.15, Q8.
    """
    trees = [f"t{number}" for number in range(1_000)]
    mesh = World(LINE, settings=Settings(ping_ms=0, trees_max=200))
    mesh.run()
    wishes = [RoleWish(address(tree, f"r{number}")) for tree in trees for number in range(10)]
    mesh.step("c", RolesAdded(APP, wishes))
    mesh.run()
    assert mesh.nodes["c"].size.roles == 10_000
    chance = Random(1)
    for _ in range(200):
        call = mesh.send("a", f"r{chance.randrange(10)}", tree=chance.choice(trees))
        mesh.run()
        check_call(mesh, call)
    assert all(mesh.nodes[node].size.trees <= 200 for node in "ab")
