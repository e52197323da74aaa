"""Messages that stay in their realm. Spec: tree_layer 11."""

from __future__ import annotations

from mesh.model.tree_frames import (
    Send,
)
from tests.sim.trees.rules import (
    inside,
)
from tests.sim.trees.scenes import (
    REALMS,
    ask,
    kinds,
    world,
)
from tests.sim.trees.world import (
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
