"""Trees that are forgotten and found again. Spec: tree_layer 11."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from mesh.model.tree_apps import RoleRequest, TreeEvicted
from mesh.model.tree_frames import ReplyKind
from mesh.model.trees import TreeId
from mesh.trees import evicting
from mesh.trees.inputs import RolesAdded, Ticked
from mesh.trees.node import TreeState
from mesh.trees.settings import Settings
from tests.sim.trees.rules import (
    check_call,
    check_quiet,
    inside,
)
from tests.sim.trees.scenes import (
    LINE,
    answer,
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


def test_messages_that_wait_on_more_trees_than_are_kept_cost_each_as_much_as_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each step went through all trees, and for each of them through all messages."""
    mesh = world(settings=Settings(ping_ms=0, trees_max=10))
    held, looked = hold_answers(mesh), Counter[str]()
    evict = evicting.evict

    def look(node: TreeState, tree: TreeId) -> bool:
        looked[node.name] += 1
        return evict(node, tree)

    monkeypatch.setattr(evicting, "evict", look)
    trees = [f"t{number}" for number in range(300)]
    mesh.step("c", RolesAdded(APP, [RoleRequest(address(tree, "r")) for tree in trees]))
    calls = [mesh.send("a", "r", tree=tree) for tree in trees]
    mesh.run(for_ms=2_000)
    assert all(mesh.nodes[node].size.trees == 300 for node in "abc")
    looked.clear()
    mesh.step("b", Ticked())
    assert looked["b"] <= evicting.KEPT_MAX
    for one in held:
        answer(mesh, one)
    mesh.run()
    check_quiet(mesh, evicted=True)
    assert all(one.count(ReplyKind.DATA) == 1 for one in calls)
    mesh.step("b", Ticked())
    assert mesh.nodes["b"].size.trees <= 10


def test_45_forgotten_everywhere_and_found_again() -> None:
    """Spec: tree_layer 11 (45), Q8."""
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
    requests = [RoleRequest(address(tree, f"r{number}")) for tree in trees for number in range(10)]
    mesh.step("c", RolesAdded(APP, requests))
    mesh.run()
    assert mesh.nodes["c"].size.roles == 10_000
    chance = Random(1)
    for _ in range(200):
        call = mesh.send("a", f"r{chance.randrange(10)}", tree=chance.choice(trees))
        mesh.run()
        check_call(mesh, call)
    assert all(mesh.nodes[node].size.trees <= 200 for node in "ab")
