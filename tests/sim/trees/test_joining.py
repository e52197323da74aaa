"""A node that joins copies what a neighbour knows. Spec: tree_layer 5.7 (c), 5.16."""

from __future__ import annotations

from mesh.model.trees import Extent
from mesh.trees.settings import Settings
from tests.sim.trees.rules import check_call, check_quiet, inside
from tests.sim.trees.scenes import LONG, SQUARE, ask, world
from tests.sim.trees.trial import builder_frames
from tests.sim.trees.world import World, address

FIVE = (*SQUARE, ("d", "e"))


def warm(**options) -> World:
    """Return five nodes, of which a, c and e hold r, that all know so for certain."""
    mesh = world((*FIVE, ("e", "x")), roles="ace", **options)
    mesh.crash("x")
    mesh.run()
    for node in "abcde":
        ask(mesh, node), ask(mesh, node)
    mesh.start("x")
    mesh.run()
    return mesh


def test_55_the_first_send_of_a_node_that_joined_needs_no_recovery() -> None:
    """Spec: tree_layer 11 (55)."""
    mesh = warm()
    before = builder_frames(mesh)
    assert ask(mesh, "x").reached == ["a", "c", "e"]
    assert builder_frames(mesh) == before


def test_without_a_copy_it_recovers() -> None:
    """What the copy saves."""
    mesh = warm(settings=Settings(ping_ms=0, copies_trees=False))
    before = builder_frames(mesh)
    assert ask(mesh, "x").reached == ["a", "c", "e"]
    assert builder_frames(mesh) > before


def test_what_is_not_certain_there_is_not_certain_here() -> None:
    """A copy is as good as what it was made of. Spec: H6."""
    mesh = world((*FIVE, ("e", "x")), roles="ac")
    mesh.crash("x")
    mesh.run()
    mesh.start("x")
    mesh.run()
    role = inside(mesh, "x").trees[address("t", "r").tree].roles["r"]
    assert role.everywhere.routes
    assert not role.everywhere.is_certified
    assert ask(mesh, "x").reached == ["a", "c"]


def test_a_bridge_between_two_parts_trusts_no_copy() -> None:
    """Both halves are certain, and each knows itself alone."""
    mesh = world((*LONG, ("b", "x"), ("x", "c")))
    mesh.cut("b", "c")
    mesh.crash("x")
    mesh.run()
    mesh.role("a", "r"), mesh.role("d", "r")
    mesh.run()
    for node in "abcd":
        ask(mesh, node), ask(mesh, node)
    mesh.start("x")
    mesh.run()
    for node in "xabcd":
        call = mesh.send(node, "r")
        mesh.run()
        check_call(mesh, call)
        assert call.reached == ["a", "d"]


def test_nothing_is_told_across_realms() -> None:
    """Roles of a realm stay in it; whoever is outside recovers."""
    realms = {"a": "r1", "b": "r1", "x": "r2"}
    mesh = World((("a", "b"), ("b", "x")), realms=realms)
    mesh.run()
    mesh.crash("x")
    mesh.run()
    mesh.role("a", "inner", extent=Extent.REALM), mesh.role("a", "r")
    mesh.run()
    ask(mesh, "b")
    mesh.start("x")
    mesh.run()
    assert mesh.frames["Trees"] == 0
    call = mesh.send("x", "inner")
    mesh.run()
    assert call.reached == []
    assert ask(mesh, "x").reached == ["a"]


def test_a_copy_that_lacks_who_is_known_in_the_realm_alone_is_not_certain() -> None:
    """It does not say how far an instance is known, so the joining node has yet to ask."""
    mesh = World((("a", "b"), ("b", "j"), ("b", "x")), realms=dict.fromkeys("abj", "r1"))
    mesh.run()
    mesh.crash("j")
    mesh.role("a", "r", extent=Extent.REALM), mesh.role("x", "r")
    mesh.run()
    ask(mesh, "b")
    mesh.start("j")
    mesh.run()
    mesh.heal("j", "x")
    mesh.run()
    mesh.unrole("x", "r"), mesh.role("x", "r")
    mesh.run()
    [route] = inside(mesh, "j").trees[address("t", "r").tree].roles["r"].everywhere.routes.values()
    assert route.link == "x"  # so what it sends does not pass b, which knows a
    call = mesh.send("j", "r")
    mesh.run()
    check_quiet(mesh)
    assert call.reached == ["a", "x"]
