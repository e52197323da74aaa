"""Messages that stay in their realm. Spec: tree_layer 11."""

from __future__ import annotations

from random import Random

import pytest

from mesh.model.tree_apps import Resumed, RoleLost, RoleRequest, SendWanted, SnoopWanted
from mesh.model.tree_frames import Options, Publish, Send
from mesh.model.tree_nodes import nodes_in
from mesh.model.trees import Extent, InstanceId
from mesh.trees.inputs import RealmChanged, RolesAdded
from mesh.trees.settings import Settings
from tests.sim.trees.rules import (
    check_always,
    check_call,
    check_quiet,
    inside,
)
from tests.sim.trees.scenes import (
    LONG,
    REALMS,
    answer,
    ask,
    codes,
    hold_answers,
    kinds,
    world,
)
from tests.sim.trees.world import (
    APP,
    Wire,
    World,
    address,
)

LOW = InstanceId(5)
"""What any other holder beats."""


def test_41_a_faster_way_outside_does_not_hide_the_one_inside() -> None:
    """Spec: tree_layer 11 (41). PAT-11."""
    mesh = World((("a", "b"), ("a", "c"), ("c", "b")), realms=REALMS, latency_ms=(5, 5))
    mesh.wires[frozenset("ab")].latency_ms = 200
    mesh.run()
    mesh.role("a", "r")
    mesh.run()
    role = inside(mesh, "b").trees[address("t", "r").tree].roles["r"]
    assert [route.link for route in role.realm.routes.values()] == ["a"]
    mesh.log = []
    assert ask(mesh, "b", local_realm=True).reached == ["a"]
    sent = [(x, y) for _, x, y, frame in mesh.log if isinstance(frame.body, Send)]
    assert sent == [("b", "a")]


def test_42_a_realm_that_was_split_inside_finds_all_of_itself_again() -> None:
    """Spec: tree_layer 11 (42), H16."""
    realms = {"a": "r1", "b": "r1", "x": "r2", "c": "r1", "d": "r1"}
    mesh = World((("a", "b"), ("b", "c"), ("c", "d"), ("a", "x"), ("x", "d")), realms=realms)
    mesh.run()
    mesh.cut("b", "c")
    mesh.run()
    mesh.role("a", "r"), mesh.role("d", "r")
    mesh.run()
    assert ask(mesh, "a", local_realm=True).reached == ["a"]
    assert ask(mesh, "a").reached == ["a", "d"]
    mesh.heal("b", "c")
    mesh.run()
    assert ask(mesh, "a", local_realm=True).reached == ["a", "d"]


def test_43_not_in_this_realm() -> None:
    """Spec: tree_layer 11 (43), Q2."""
    mesh = World((("a", "b"), ("b", "c")), realms=REALMS)
    mesh.run()
    mesh.role("c", "r")
    mesh.run()
    assert kinds(ask(mesh, "a", local_realm=True)) == [("not_found", True)]
    assert ask(mesh, "a").reached == ["c"]
    alone = world()
    alone.send("a", "r", local_realm=True)
    assert alone.told[-1][1].code == "NO_REALM"


def test_who_is_known_in_a_realm_alone_gets_nothing_from_outside() -> None:
    """Though a node of the realm that hosts the role too knows the way."""
    mesh = World((("a", "b"), ("b", "x")), realms={"a": "r1", "b": "r1", "x": "r2"})
    mesh.run()
    mesh.role("a", "r", extent=Extent.REALM), mesh.role("b", "r")
    mesh.run()
    for _ in range(3):
        assert reached(mesh, "x") == ["b"]
        assert reached(mesh, "b") == ["a", "b"]
        assert reached(mesh, "a") == ["a", "b"]
    mesh.unrole("b", "r")
    mesh.run()
    assert reached(mesh, "x") == []
    assert reached(mesh, "b") == ["a"]
    assert (reached(mesh, "x"), reached(mesh, "b")) == ([], ["a"])
    assert mesh.frames["RouteBreak"] == 0


def test_who_is_known_in_a_node_alone_gets_nothing_from_others() -> None:
    mesh = World((("a", "b"), ("b", "c")))
    mesh.run()
    mesh.role("b", "r", extent=Extent.NODE), mesh.role("c", "r")
    mesh.run()
    assert reached(mesh, "a") == ["c"]
    assert reached(mesh, "b") == ["b", "c"]


def two_ways() -> World:
    """Make a mesh in which a reaches b and d by a fast way outside, and later by one inside.

    b holds the role too, for its realm alone.
    """
    realms = dict.fromkeys("abcd", "r1") | {"x": "r2"}
    wires = (("a", "x"), ("x", "c"), ("c", "b"), ("b", "d"))
    settings = Settings(ping_ms=0, copies_trees=False)
    mesh = World(wires, realms=realms, latency_ms=(5, 5), settings=settings)
    mesh.wires[frozenset("ab")] = Wire(200, works=False)
    mesh.run()
    mesh.role("d", "r")
    mesh.run()
    assert reached(mesh, "a") == ["d"]
    mesh.heal("a", "b")
    mesh.run()
    mesh.role("b", "r", extent=Extent.REALM)
    mesh.run()
    return mesh


@pytest.mark.parametrize("extent", [Extent.NODE, Extent.REALM])
@pytest.mark.parametrize("is_alone", [True, False])
def test_a_holder_keeps_nobody_out_where_it_is_not_known(extent: Extent, is_alone: bool) -> None:
    """It would be told there, and others lose the role to one that nobody there can reach. 5.2."""
    realms = {"a": "r2", "b": "r1", "h": "r1", "c": "r2"}
    mesh = World((("a", "b"), ("b", "h"), ("b", "c")), realms=realms)
    mesh.run()
    mesh.role("h" if extent is Extent.REALM else "b", "r", is_exclusive=True, extent=extent)
    mesh.run()
    for node in "ac":
        mesh.step(node, RolesAdded(APP, (RoleRequest(address("t", "r"), is_alone, iid=LOW),)))
        mesh.run()
        call = mesh.send(node, "r")
        mesh.run()
        assert call.reached == [node]
        mesh.unrole(node, "r")
        mesh.run()
    mesh.role("a", "r")
    mesh.run()
    role = inside(mesh, "c").trees[address("t", "r").tree].roles["r"]
    assert [route.link for route in role.everywhere.routes.values()] == ["b"]
    assert [one for one in mesh.told if isinstance(one[1], RoleLost)] == []


def test_no_copy_spreads_who_is_known_in_the_realm_alone() -> None:
    """A node that joins would tell of it outside. Spec: tree_layer 5.2, 5.16."""
    mesh = World((("a", "b"), ("j", "x")), realms={"a": "r1", "b": "r1", "j": "r1", "x": "r2"})
    mesh.run()
    mesh.role("a", "r", is_exclusive=True, extent=Extent.REALM)
    mesh.run()
    ask(mesh, "b")
    mesh.heal("b", "j")
    mesh.run()
    mesh.step("x", RolesAdded(APP, (RoleRequest(address("t", "r"), iid=LOW),)))
    mesh.run()
    assert [one for one in mesh.told if isinstance(one[1], RoleLost)] == []
    call = mesh.send("x", "r")
    mesh.run()
    assert call.reached == ["x"]


def test_what_is_known_in_the_realm_alone_is_not_told_again_over_a_link_that_leaves_it() -> None:
    """It comes up within one part, which is told the last publishes. Spec: tree_layer 5.2."""
    realms = {"a": "r1", "b": "r1", "x": "r2", "y": "r2"}
    mesh = World((("a", "b"), ("b", "x"), ("x", "y")), realms=realms)
    mesh.run()
    mesh.role("b", "other")
    mesh.role("a", "r", extent=Extent.REALM)
    mesh.run()
    mesh.heal("a", "y")
    mesh.run()
    assert "a" in mesh.nodes["y"].links_up
    assert "r" not in inside(mesh, "y").trees[address("t", "r").tree].roles


def test_a_copy_from_inside_is_for_who_is_known_in_the_realm_alone() -> None:
    """It came after one that was faster and had left the realm. Spec: H16."""
    mesh = two_ways()
    for options in ({}, {"one_response": True}, {"one_way": True}):
        call = mesh.send("a", "r", **options)
        mesh.run()
        check_quiet(mesh)
        assert call.reached == ["b", "d"]
        assert sorted(call.items) == ([] if options == {"one_way": True} else [b"b", b"d"])
    assert reached(mesh, "x") == ["d"]


def test_a_copy_from_inside_has_a_way_back_where_the_other_one_was_cut() -> None:
    """Answers go the way that there still is, and nothing where none is. Spec: H11, H16."""
    mesh = two_ways()
    held = hold_answers(mesh)
    call = mesh.send("a", "r")
    mesh.run(for_ms=100)
    assert call.reached == ["d"]
    mesh.cut("b", "c", (0, 0))
    mesh.run(for_ms=200)
    assert call.reached == ["b", "d"]
    for one in held:
        answer(mesh, one, one[0].encode())
    mesh.run()
    check_quiet(mesh)
    assert sorted(call.items) == [b"b", b"d"]


def test_a_copy_from_inside_counts_while_a_reply_to_the_other_one_is_held() -> None:
    """Else who is known in the realm alone would miss it without a word. Spec: H16, tree_layer 6.8."""
    mesh = two_ways()
    mesh.step("b", SnoopWanted("spy", None, holds=True))
    call = mesh.send("a", "r")
    mesh.run(for_ms=50)
    go_on(mesh)
    mesh.run(for_ms=100)
    [session] = inside(mesh, "b").sessions.open.values()
    assert (session.is_held, call.reached) == (True, ["d"])
    mesh.run(for_ms=300)
    assert call.reached == ["b", "d"]
    while inside(mesh, "b").watching.held:
        go_on(mesh)
    mesh.run()
    check_quiet(mesh)
    assert sorted(call.items) == [b"b", b"d"]


def test_a_copy_from_inside_waits_with_the_other_one() -> None:
    """Nobody is given a message before its watcher has said its word. Spec: H16, tree_layer 6.8."""
    mesh = two_ways()
    mesh.step("b", SnoopWanted("spy", None, holds=True))
    call = mesh.send("a", "r")
    mesh.run(for_ms=400)
    assert call.reached == []
    while inside(mesh, "b").watching.held:
        go_on(mesh)
        mesh.run(for_ms=100)
    mesh.run()
    check_quiet(mesh)
    assert (call.reached, sorted(call.items)) == (["b", "d"], [b"b", b"d"])


def go_on(mesh: World) -> None:
    """Let go on what waits at b for longest."""
    mesh.step("b", Resumed("spy", next(iter(inside(mesh, "b").watching.held))))


def test_a_copy_from_inside_goes_no_further_than_its_realm() -> None:
    """Everybody outside has had one. Spec: tree_layer 5.14."""
    realms = REALMS | {"d": "r1"}
    wires = (("a", "b"), ("a", "c"), ("c", "b"), ("b", "d"))
    mesh = World(wires, realms=realms, latency_ms=(5, 5))
    mesh.wires[frozenset("ab")].latency_ms = 200
    mesh.run()
    mesh.log = []
    mesh.role("a", "r")
    mesh.run()
    told = [(one, other) for _, one, other, frame in mesh.log if isinstance(frame.body, Publish)]
    assert (told.count(("b", "d")), told.count(("b", "c"))) == (2, 0)


def reached(mesh: World, node: str) -> list[str]:
    call = mesh.send(node, "r")
    mesh.run()
    check_quiet(mesh)
    assert sum(one.is_last for one in call.answers) == 1
    return call.reached


def move(mesh: World, node: str, realm: str) -> None:
    """Give a node another realm."""
    mesh.realms[node] = realm
    mesh.step(node, RealmChanged(realm))


def test_a_node_that_comes_into_another_realm_is_found_there_and_not_where_it_was() -> None:
    """Operators may say so of a mesh that lives. Spec: tree_layer 5.14, H16."""
    realms = {"a": "r1", "b": "r1", "c": "r2", "d": "r2"}
    mesh = world(LONG, roles="abcd", realms=dict(realms))
    for node in "abcd":
        ask(mesh, node, local_realm=True), ask(mesh, node)
    move(mesh, "b", "r2")
    mesh.run()
    check_quiet(mesh)
    for node in "dcba":
        reached = ["a"] if node == "a" else ["b", "c", "d"]
        assert ask(mesh, node, local_realm=True).reached == reached
        assert ask(mesh, node).reached == ["a", "b", "c", "d"]
    move(mesh, "c", "")
    mesh.run()
    assert ask(mesh, "b", local_realm=True).reached == ["b"]
    assert ask(mesh, "d", local_realm=True).reached == ["d"]
    assert codes(
        mesh.step("c", SendWanted(APP, "x", address("t", "r"), options=Options(local_realm=True)))
    ) == ["NO_REALM"]
    move(mesh, "c", "r2")
    mesh.run()
    assert ask(mesh, "d", local_realm=True).reached == ["b", "c", "d"]
    into = mesh.send("a", "r2", tree="$realms", one_response=True)
    mesh.run()
    assert sorted(one.node for one in nodes_in(into.items)) == ["b", "c", "d"]


@pytest.mark.parametrize("seed", range(40))
def test_random_meshes_whose_nodes_change_their_realms_break_no_rule(seed: int) -> None:
    random = Random(seed)
    names = [f"n{number}" for number in range(random.randint(3, 7))]
    wires = {
        tuple(sorted((name, random.choice(names[:at])))) for at, name in enumerate(names) if at
    }
    wires |= {tuple(sorted(random.sample(names, 2))) for _ in range(random.randint(0, 4))}
    realms = {name: random.choice(("r1", "r2")) for name in names}
    mesh = World(sorted(wires), seed=seed, realms=realms, settings=Settings(ping_ms=0))
    mesh.run()
    for _ in range(random.randint(6, 14)):
        node = random.choice(names)
        random.choice(
            (
                lambda node=node: move(mesh, node, random.choice(("r1", "r2", "r3"))),
                lambda node=node: mesh.role(node, "s1"),
                lambda node=node: mesh.role(node, "x1", is_exclusive=True),
                lambda node=node: mesh.send(node, "s1", local_realm=True),
                lambda node=node: mesh.send(node, "x1"),
            )
        )()
        mesh.run(for_ms=random.randint(0, 120))
        check_always(mesh)
    mesh.run()
    check_quiet(mesh)
    for node in names:
        for role in ("s1", "x1"):
            for is_local in (True, False):
                call = mesh.send(node, role, local_realm=is_local)
                mesh.run()
                check_call(mesh, call)
    check_quiet(mesh)


@pytest.mark.parametrize("extent", [Extent.REALM, Extent.CLOUD])
def test_what_was_told_in_the_former_realm_is_not_told_in_the_next(extent: Extent) -> None:
    """Not over a link that comes up when its end is of one part already. Spec: tree_layer 5.14."""
    realms = {"a": "r1", "b": "r1", "c": "r2", "d": "r2"}
    mesh = World((("a", "b"), ("b", "c"), ("b", "d"), ("c", "d")), realms=realms)
    mesh.run()
    mesh.role("d", "r")
    mesh.role("a", "r", extent=extent)
    mesh.run()
    mesh.wires[frozenset("bd")].latency_ms = 200
    move(mesh, "b", "r2")
    mesh.run()
    for node in "cd":
        tree = inside(mesh, node).trees[address("t", "r").tree]
        maps = [role.realm for role in tree.roles.values()]
        assert not any(route.link == "b" for table in maps for route in table.routes.values())
    assert ask(mesh, "c", local_realm=True).reached == ["d"]
