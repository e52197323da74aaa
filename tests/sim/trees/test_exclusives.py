"""Roles that one alone holds. Spec: tree_layer 11."""

from __future__ import annotations

from mesh.model.tree_apps import (
    ExclusiveCleared,
    RoleWish,
)
from mesh.model.trees import (
    InstanceId,
)
from mesh.trees.inputs import (
    RolesAdded,
)
from tests.sim.trees.rules import (
    hosts,
)
from tests.sim.trees.scenes import (
    LONG,
    ask,
    codes,
    world,
)
from tests.sim.trees.world import (
    APP,
    address,
    lost_by,
)


def test_26_of_two_holders_the_higher_one_stays() -> None:
    """Spec: tree_layer 11 (26). PAT-7."""
    mesh = world()
    mesh.role("a", "e", is_exclusive=True)
    mesh.role("c", "e", is_exclusive=True)
    iids = {node: found[0] for node, found in hosts(mesh, address("t", "e")).items()}
    mesh.run()
    higher = max(iids, key=iids.get)
    lower = min(iids, key=iids.get)
    assert list(hosts(mesh, address("t", "e"))) == [higher]
    assert [one.address.role for one in lost_by(mesh, lower)] == ["e"]
    for node in "abc":
        assert ask(mesh, node, "e").reached == [higher]


def test_27_an_exclusive_role_ends_the_shared_ones() -> None:
    """Spec: tree_layer 11 (27)."""
    mesh = world(LONG, roles="ab")
    mesh.role("c", "r", is_exclusive=True)
    mesh.run()
    assert list(hosts(mesh, address("t", "r"))) == ["c"]
    assert lost_by(mesh, "a")
    assert lost_by(mesh, "b")
    assert codes(mesh.role("d", "r")) == ["EXCLUSIVE_HELD"]


def test_28_two_parts_with_a_holder_each_heal_to_one() -> None:
    """Spec: tree_layer 11 (28), H15."""
    mesh = world(LONG)
    mesh.cut("b", "c")
    mesh.run()
    mesh.role("a", "e", is_exclusive=True)
    mesh.role("d", "e", is_exclusive=True)
    mesh.run()
    mesh.heal("b", "c")
    mesh.run()
    found = hosts(mesh, address("t", "e"))
    assert len(found) == 1
    assert len(lost_by(mesh, "a")) + len(lost_by(mesh, "d")) == 1
    assert ask(mesh, "a", "e").reached == list(found)


def test_29_a_dead_holder_is_cleared() -> None:
    """Spec: tree_layer 11 (29). PAT-8."""
    mesh = world(LONG)
    mesh.role("d", "e", is_exclusive=True)
    mesh.run()
    mesh.crash("d")
    mesh.run()
    mesh.step("a", ExclusiveCleared("", address("t", "e")))
    mesh.run()
    low = RoleWish(address("t", "e"), is_exclusive=True, iid=InstanceId(5))
    assert codes(mesh.step("b", RolesAdded(APP, (low,)))) == []
    mesh.run()
    assert ask(mesh, "c", "e").reached == ["b"]
