"""What one node keeps has an end, whatever it is asked. Spec: tree_layer 6.10, I3."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.model.tree_apps import Answered, RoleRequest, SendWanted
from mesh.model.tree_frames import Cause, Grant
from mesh.model.trees import Address, Extent, InstanceId, tree_id
from mesh.trees.inputs import PortOpened, RolesAdded, RolesRemoved, Ticked
from mesh.trees.machine import TreeNode
from mesh.trees.moving import had
from mesh.trees.routes import LOST_MAX, LastHeard, RouteMap
from mesh.trees.settings import Settings

SWEEP_MS = Settings().sweep_ms


def alone() -> TreeNode:
    node = TreeNode("a", "uuid", 1, 7, "", Settings())
    node.step(PortOpened("app"), 0)
    return node


def test_names_that_are_made_up_leave_nothing_behind_after_a_sweep() -> None:
    node = alone()
    for number in range(500):
        address = Address(tree_id(f"tree-{number % 50}"), f"role-{number}")
        node.step(SendWanted("app", str(number), address), number)
    assert len(node._node.trees) == 50
    node.step(Ticked(), 2 * SWEEP_MS)
    assert not node._node.trees
    assert not node._node.sessions.open


def test_a_role_that_is_here_outlives_the_sweep() -> None:
    node = alone()
    address = Address(tree_id("tree"), "role")
    node.step(RolesAdded("app", (RoleRequest(address),)), 0)
    node.step(SendWanted("app", "c", address), 1)
    node.step(Ticked(), 2 * SWEEP_MS)
    assert list(node._node.trees[address.tree].roles) == ["role"]
    node.step(RolesRemoved("app", (address,)), 2 * SWEEP_MS + 1)
    node.step(Ticked(), 20 * SWEEP_MS + 700_000)
    assert not node._node.trees


def test_of_instances_that_are_gone_the_last_are_remembered() -> None:
    table = RouteMap()
    for number in range(2 * LOST_MAX):
        table.remember(InstanceId(number), LastHeard((number, 0), number))
    assert len(table.lost) == LOST_MAX
    last = 2 * LOST_MAX - 1
    assert table.known(InstanceId(last)) == LastHeard((last, 0), last)
    assert table.known(InstanceId(0)) is None


def test_of_messages_that_nobody_answers_the_oldest_end_when_they_fill_the_memory() -> None:
    """For ten minutes each was kept, with all that it carries, here and on its way."""
    node = TreeNode("a", "uuid", 1, 7, "", Settings(sessions_bytes_max=50_000))
    address = Address(tree_id("tree"), "role")
    for app in ("app", "host"):
        node.step(PortOpened(app), 0)
    node.step(RolesAdded("host", (RoleRequest(address),)), 0)
    outputs = [
        output
        for number in range(20)
        for output in node.step(SendWanted("app", str(number), address, bytes(10_000)), number)
    ]
    ended = [one for one in outputs if isinstance(one, Answered)]
    assert [(one.call, one.is_last) for one in ended] == [(str(n), True) for n in range(16)]
    assert {one.cause for one in ended} == {Cause.SWEPT}
    assert node.size.sessions == 4


def test_of_what_instances_have_had_the_last_is_remembered_and_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is for copies that are under way, and those have an end. Spec: I1, 5.13."""
    monkeypatch.setattr("mesh.trees.node.GIVEN_MAX", 6)
    monkeypatch.setattr("mesh.trees.moving.HAD_MAX", 2)
    node = alone()
    address = Address(tree_id("tree"), "role")
    node.step(RolesAdded("app", (RoleRequest(address),)), 0)
    for number in range(10):
        node.step(SendWanted("app", str(number), address), number)
    given = list(node._node.given)
    assert len(given) == 6
    [iid] = node._node.instances(address)
    grant = Grant(address, iid, False, True, 1, Extent.CLOUD, "")
    assert had(node._node, grant) == (given[-1][0], given[-2][0])
    assert had(node._node, replace(grant, give_up=False)) == ()
