"""Applications that ask to be told of colours and trees. Spec: tree_layer 7.4, 8."""

from __future__ import annotations

from mesh.model.tree_apps import (
    ColourChanged,
    ColourReason,
    LeaseSaid,
    NewsKind,
    NewsWanted,
    RoleKey,
    RoleRequest,
    RoleSaid,
    SendWanted,
    TreeBuilt,
)
from mesh.model.trees import Address, Extent, tree_id
from mesh.trees.applications.effects import Effect, Tell
from mesh.trees.applications.inputs import RolesCaughtUp, RolesRead
from mesh.trees.applications.machine import Applications
from mesh.trees.inputs import Ticked
from mesh.trees.machine import TreeNode
from mesh.trees.settings import Settings

PLACE = Address(tree_id("desk"), "pricing")
REQUEST = RoleSaid(RoleKey("app", "desk", "pricing"), RoleRequest(PLACE))


def served(realm: str = "") -> Applications:
    apps = Applications(TreeNode("a", "uuid", 3, 77, realm, Settings()), "uuid", 3)
    apps.step(RolesCaughtUp(), 0)
    apps.step(RolesRead([LeaseSaid("app", 5_000), LeaseSaid("deaf", 50_000)]), 0)
    return apps


def news(effects: list[Effect], app: str = "app") -> list[ColourChanged | TreeBuilt]:
    told = [one.told for one in effects if isinstance(one, Tell) and one.app == app]
    return [one for one in told if isinstance(one, ColourChanged | TreeBuilt)]


def test_a_first_colour_is_told_to_who_asked_before_it() -> None:
    apps = served(realm="asia")
    assert not news(apps.step(NewsWanted("app", NewsKind.COLOURS), 0))
    effects = apps.step(RolesRead([REQUEST]), 10)
    node = apps.node
    assert node.colour is not None
    assert node.realm_colour is not None
    first = ColourReason.FIRST
    assert news(effects) == [
        ColourChanged(Extent.CLOUD, None, node.colour, first),
        ColourChanged(Extent.REALM, None, node.realm_colour, first),
    ]
    assert not news(effects, "deaf")


def test_who_asks_later_is_told_at_once_how_it_stands() -> None:
    apps = served()
    apps.step(RolesRead([REQUEST]), 0)
    assert apps.node.colour is not None
    asked = ColourChanged(Extent.CLOUD, None, apps.node.colour, ColourReason.ASKED)
    assert news(apps.step(NewsWanted("app", NewsKind.COLOURS), 10)) == [asked]
    apps.step(SendWanted("app", "c", PLACE), 20)
    assert news(apps.step(NewsWanted("app", NewsKind.TREES), 30)) == [TreeBuilt(PLACE.tree)]


def test_a_tree_is_told_of_when_the_node_comes_to_know_it() -> None:
    apps = served()
    assert not news(apps.step(NewsWanted("app", NewsKind.TREES), 0))
    effects = apps.step(SendWanted("deaf", "c", PLACE, protocol="v2"), 10)
    assert news(effects) == [TreeBuilt(PLACE.tree, "v2")]
    assert not news(apps.step(SendWanted("deaf", "d", PLACE), 20))


def test_who_wants_no_more_or_is_gone_is_told_nothing() -> None:
    apps = served()
    apps.step(NewsWanted("app", NewsKind.TREES), 0)
    apps.step(NewsWanted("app", NewsKind.TREES, ends=True), 10)
    assert not news(apps.step(SendWanted("app", "c", PLACE), 20))
    apps.step(NewsWanted("app", NewsKind.COLOURS), 30)
    apps.step(Ticked(), 6_000)
    assert list(apps.names) == ["deaf"]
    effects = apps.step(
        RolesRead([RoleSaid(RoleKey("deaf", "desk", "x"), RoleRequest(PLACE))]), 6_010
    )
    assert effects
    assert not news(effects)


def test_nobody_is_counted_once_nobody_wants_to_know() -> None:
    apps = served()
    apps.step(NewsWanted("app", NewsKind.SPLITS), 0)
    apps.step(NewsWanted("deaf", NewsKind.SPLITS), 0)
    assert apps.splits.is_watched
    apps.step(NewsWanted("app", NewsKind.SPLITS, ends=True), 10)
    assert apps.splits.is_watched
    apps.step(NewsWanted("deaf", NewsKind.SPLITS, ends=True), 10)
    assert not apps.splits.is_watched
