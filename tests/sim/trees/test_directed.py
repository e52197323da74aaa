"""Directed recovery: after a heal only what lies behind it is asked. Spec: tree_layer 7.3. PAT-10."""

from __future__ import annotations

from mesh.model.tree_frames import RecoveryRequest
from mesh.trees.settings import Settings
from tests.sim.trees.scenes import LONG, ask
from tests.sim.trees.world import World

DIRECTED = Settings(ping_ms=0, directed_recovery=True)
SIDE = (("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("b", "b2"))


def _apart(settings: Settings) -> World:
    """Return a mesh in two parts that both know their own instances for certain."""
    mesh = World((*LONG, *SIDE), settings=settings)
    mesh.run()
    mesh.cut("b", "c")
    mesh.run()
    mesh.role("a3", "r"), mesh.role("d", "r")
    mesh.run()
    for node in ("a1", "d"):
        ask(mesh, node), ask(mesh, node)
    return mesh


def _asked_after_heal(settings: Settings) -> int:
    mesh = _apart(settings)
    mesh.heal("b", "c")
    mesh.run()
    before = mesh.frames["RecoveryRequest"]
    assert ask(mesh, "a1").reached == ["a3", "d"]
    return mesh.frames["RecoveryRequest"] - before


def test_the_own_side_is_not_asked_again() -> None:
    """Nodes beside the way are asked by a flood, and not by a request that is directed."""
    assert _asked_after_heal(DIRECTED) < _asked_after_heal(Settings(ping_ms=0))


def test_a_link_lost_since_the_heal_means_the_flood() -> None:
    """The colour is not that of the heal any more. Spec: H20."""
    mesh = _apart(DIRECTED)
    mesh.heal("b", "c")
    mesh.run()
    mesh.cut("b", "b1")
    mesh.run()
    mesh.log = []
    assert ask(mesh, "a1").reached == ["a3", "d"]
    asked = [f.body for _, _, _, f in mesh.log if isinstance(f.body, RecoveryRequest)]
    assert asked
    assert not any(one.heal for one in asked)


def test_a_way_that_is_no_more_is_said_and_the_flood_follows() -> None:
    """A node on the way has forgotten the heal: it says so, and the recovery begins anew."""
    mesh = _apart(DIRECTED)
    mesh.heal("b", "c")
    mesh.run()
    mesh.nodes["a"]._node.heals.clear()
    mesh.log = []
    call = mesh.send("a1", "r")
    mesh.run()
    assert call.reached == ["a3", "d"]
    asked = [
        f.body.heal for _, x, _, f in mesh.log if isinstance(f.body, RecoveryRequest) if x == "a1"
    ]
    assert asked[0]
    assert not any(asked[1:])


def test_nodes_on_the_way_certify_nothing() -> None:
    """What is hosted among them never answers a request that passes. Spec: H20."""
    mesh = _apart(DIRECTED)
    mesh.role("b", "r")
    mesh.heal("b", "c")
    mesh.run()
    assert ask(mesh, "a1").reached == ["a3", "b", "d"]
    assert ask(mesh, "a").reached == ["a3", "b", "d"]
    assert ask(mesh, "b").reached == ["a3", "b", "d"]


def test_three_parts_joined_twice_are_two_heals() -> None:
    """Both are taken into account by one send. PAT-10."""
    mesh = World((*LONG, ("d", "e"), ("e", "f")), settings=DIRECTED)
    mesh.run()
    mesh.cut("b", "c"), mesh.cut("d", "e")
    mesh.run()
    for node in "ace":
        mesh.role(node, "r")
        mesh.run()
        ask(mesh, node)
    mesh.heal("b", "c")
    mesh.run()
    mesh.heal("d", "e")
    mesh.run()
    for node in "abcdef":
        assert ask(mesh, node).reached == ["a", "c", "e"]
