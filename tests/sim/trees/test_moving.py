"""Roles that move with a reply. Spec: tree_layer 11."""

from __future__ import annotations

import pytest

from mesh.model.tree_apps import (
    RoleTaken,
)
from tests.sim.trees.rules import (
    check_quiet,
    hosts,
    inside,
)
from tests.sim.trees.scenes import (
    LONG,
    answer,
    ask,
    codes,
    hold_answers,
    world,
)
from tests.sim.trees.world import (
    Call,
    World,
    address,
)


def move(mesh: World, node: str, role: str = "e") -> Call:
    """Ask the holder for its role."""
    call = mesh.send(node, role, payload="give")
    mesh.run()
    return call


def test_31_a_role_moves_with_a_reply_and_nothing_is_published() -> None:
    """Spec: tree_layer 11 (31). PAT-7."""
    mesh = world((*LONG, ("c", "x")))
    mesh.role("d", "e", is_exclusive=True)
    mesh.run()
    published = mesh.frames["Publish"]
    call = move(mesh, "a")
    assert call.items == [b"d"]
    assert mesh.frames["Publish"] == published
    assert list(hosts(mesh, address("t", "e"))) == ["a"]
    assert [one.is_granted for n, one in mesh.told if isinstance(one, RoleTaken) and n == "a"] == [
        True
    ]
    assert ask(mesh, "x", "e").reached == ["a"]


def test_where_a_role_moves_to_there_is_a_colour_of_the_realm() -> None:
    """Whoever has a role has something to lose, however it came by it. Spec: H14, H16."""
    mesh = world(realms={"a": "r1", "b": "r2", "c": "r2"})
    mesh.role("c", "e", is_exclusive=True)
    mesh.run()
    assert mesh.nodes["a"].realm_colour is None
    move(mesh, "a")
    assert list(hosts(mesh, address("t", "e"))) == ["a"]
    assert mesh.nodes["a"].realm_colour is not None


def test_a_role_that_moved_is_not_given_again_what_it_had() -> None:
    """The routes of a move are no new way to somebody who was missed. Spec: I1, H9, 5.13."""
    mesh = world((*LONG, ("b", "x")))
    mesh.role("d", "e", is_exclusive=True)
    mesh.run()
    ask(mesh, "x", "e")
    former = mesh.send("x", "e")
    while not former.answers:
        mesh.run(for_ms=5)
    sent = mesh.frames["Send"]
    mesh.send("a", "e", payload="give")
    mesh.run()
    assert mesh.frames["Send"] == sent + len(LONG)
    assert (former.reached, list(hosts(mesh, address("t", "e")))) == (["d"], ["a"])


def test_a_role_that_moves_while_its_node_asks_for_others_is_not_given_again_what_it_had() -> None:
    """The way to its new place is none to somebody who was missed. Spec: I1, 5.13."""
    mesh = world()
    mesh.wires[frozenset("bc")].latency_ms = 200
    mesh.role("b", "e", is_exclusive=True)
    mesh.run()
    held = hold_answers(mesh)
    mesh.send("c", "e")
    mesh.run(for_ms=150)
    role = inside(mesh, "b").trees[address("t", "e").tree].roles["e"]
    role.everywhere.doubt()
    call = mesh.send("a", "e")
    while len(held) < 2:
        mesh.run(for_ms=5)
    assert inside(mesh, "b").joins
    from_c, from_a = sorted(held, key=lambda one: one[1].payload)
    answer(mesh, from_c, grants=True, gives_up=True)
    answer(mesh, from_a)
    mesh.run()
    assert list(hosts(mesh, address("t", "e"))) == ["c"]
    assert call.reached == ["b"]


def test_another_way_to_where_a_role_has_moved_brings_it_nothing_again() -> None:
    """However late that is found: who had the message is the same instance. Spec: I1, 6.6."""
    mesh = world((("a", "b"), ("b", "c"), ("c", "d"), ("d", "b")))
    mesh.role("b", "e", is_exclusive=True)
    mesh.run()
    held = hold_answers(mesh)
    call = mesh.send("a", "e")
    mesh.send("c", "e")
    while len(held) < 2:
        mesh.run(for_ms=5)
    from_a, from_c = sorted(held, key=lambda one: one[1].payload)
    answer(mesh, from_c, grants=True, gives_up=True)
    mesh.run(for_ms=500)
    mesh.cut("b", "c")
    mesh.run(for_ms=500)
    later = mesh.send("a", "e")
    mesh.run(for_ms=2_000)
    assert later.reached == ["c"]
    answer(mesh, from_a), answer(mesh, held[-1])
    mesh.run()
    assert call.reached == ["b"]


@pytest.mark.parametrize("others", ["", "w"])
def test_what_an_instance_has_had_moves_with_it(others: str) -> None:
    """m, which was not told that it has moved far, is told of a faster way to its new place, and
    sends there what it sent to the old one: what has just ended, and what still waits for w.

    Spec: I1, 6.6.
    """
    ring = (("s", "m"), ("m", "x"), ("m", "y"), ("y", "z"), ("z", "m"), ("m", "w"))
    mesh = world(ring, roles=f"x{others}", latency_ms=(10, 10))
    for node in "sym":
        ask(mesh, node), ask(mesh, node)
    held = hold_answers(mesh)
    mesh.send("y", "r")
    mesh.run(for_ms=400)
    call = mesh.send("s", "r")
    mesh.run(for_ms=100)
    from_y, from_s = (one for one in held if one[0] == "x")
    answer(mesh, from_s)
    mesh.run(for_ms=60)
    assert len(inside(mesh, "m").sessions.closed) == (0 if others else 1)
    mesh.wires[frozenset("my")].latency_ms = 200
    answer(mesh, from_y, grants=True, gives_up=True)
    while "y" not in hosts(mesh, address("t", "r")):
        mesh.run(for_ms=5)
    inside(mesh, "m").trees[address("t", "r").tree].roles["r"].everywhere.doubt()
    sent = mesh.frames["Send"]
    mesh.send("m", "r")
    mesh.run(for_ms=1_000)
    assert mesh.frames["Send"] > sent
    for one in held:
        if one not in (from_s, from_y):
            answer(mesh, one)
    mesh.run()
    check_quiet(mesh)
    assert call.reached == sorted(f"x{others}")


def test_32_a_link_lost_under_a_move_leaves_at_most_one_holder() -> None:
    """Spec: tree_layer 11 (32)."""
    for lost in (("a", "b"), ("b", "c"), ("c", "d")):
        mesh = world(LONG)
        mesh.role("d", "e", is_exclusive=True)
        mesh.run()
        mesh.send("a", "e", payload="give")
        while not mesh.calls["c0"].delivered:
            mesh.run(for_ms=5)
        mesh.run(for_ms=30)
        mesh.cut(*lost)
        mesh.run()
        assert len(hosts(mesh, address("t", "e"))) <= 1
        mesh.heal(*lost)
        mesh.run()
        mesh.role("a", "e", is_exclusive=True)
        mesh.run()
        assert ask(mesh, "d", "e").reached == ["a"]


def test_33_a_grant_without_giving_up_shares() -> None:
    """Spec: tree_layer 11 (33). PAT-7."""
    mesh = world(roles="c")
    mesh.role("b", "e", is_exclusive=True)
    mesh.run()
    ask(mesh, "a"), ask(mesh, "a", "e")
    held = hold_answers(mesh)
    mesh.send("a", "r")
    mesh.send("a", "e")
    mesh.run(for_ms=300)
    for one in held:
        refused = codes(answer(mesh, one, grants=True))
        assert refused == ([] if one[0] == "c" else ["EXCLUSIVE_NEEDS_GIVE_UP"])
    answer(mesh, next(one for one in held if one[0] == "b"))
    mesh.run()
    assert list(hosts(mesh, address("t", "r"))) == ["a", "c"]
    check_quiet(mesh)


@pytest.mark.parametrize("gives_up", [False, True])
def test_an_application_has_one_instance_of_a_role_whatever_it_is_granted(gives_up: bool) -> None:
    """Else it would get each message twice, and one of the two would outlive its request."""
    mesh = world(roles="ac")
    ask(mesh, "a"), ask(mesh, "a")
    held = hold_answers(mesh)
    mesh.send("a", "r")
    mesh.run(for_ms=300)
    for one in held:
        answer(mesh, one, grants=one[0] == "c", gives_up=gives_up)
    mesh.run()
    found = hosts(mesh, address("t", "r"))
    assert {node: len(iids) for node, iids in found.items()} == (
        {"a": 1} if gives_up else {"a": 1, "c": 1}
    )
    mesh.answers_of = mesh._say_name
    assert ask(mesh, "b").reached == sorted(found)
