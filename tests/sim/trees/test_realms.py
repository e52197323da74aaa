"""Messages that stay in their realm. Spec: tree_layer 11."""

from __future__ import annotations

from mesh.model.tree_frames import (
    Send,
)
from mesh.model.trees import Extent
from tests.sim.trees.rules import (
    check_quiet,
    inside,
)
from tests.sim.trees.scenes import (
    REALMS,
    ask,
    kinds,
    world,
)
from tests.sim.trees.world import (
    Wire,
    World,
    address,
)


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
    """Spec: tree_layer 11 (43)."""
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


def test_a_copy_from_inside_is_for_who_is_known_in_the_realm_alone() -> None:
    """It came after one that was faster and had left the realm. H16."""
    realms = dict.fromkeys("abcd", "r1") | {"x": "r2"}
    mesh = World((("a", "x"), ("x", "c"), ("c", "b"), ("b", "d")), realms=realms, latency_ms=(5, 5))
    mesh.wires[frozenset("ab")] = Wire(200, works=False)
    mesh.run()
    mesh.role("d", "r")
    mesh.run()
    assert reached(mesh, "a") == ["d"]
    mesh.heal("a", "b")
    mesh.run()
    mesh.role("b", "r", extent=Extent.REALM)
    mesh.run()
    for options in ({}, {"one_response": True}, {"one_way": True}):
        call = mesh.send("a", "r", **options)
        mesh.run()
        check_quiet(mesh)
        assert call.reached == ["b", "d"]
        assert sorted(call.items) == ([] if options == {"one_way": True} else [b"b", b"d"])
    assert reached(mesh, "x") == ["d"]


def reached(mesh: World, node: str) -> list[str]:
    call = mesh.send(node, "r")
    mesh.run()
    check_quiet(mesh)
    assert sum(one.is_last for one in call.answers) == 1
    return call.reached
