"""Trees that every node is on: everybody, a realm, one node. Spec: tree_layer 7.5, 8."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from mesh.model.tree_apps import ExclusiveCleared, RoleLost
from mesh.model.tree_frames import Frame, Publish, RecoveryAnswer
from mesh.model.tree_nodes import NODES, REALMS, NodeSeen, decode_node, nodes_in, tree_of_node
from mesh.model.trees import Extent, InstanceId, MessageId
from tests.sim.trees.scenes import LONG, SQUARE, ask, codes, kinds, said, world
from tests.sim.trees.scenes import REALMS as PLACES
from tests.sim.trees.world import APP, World

HALF = 10
SIX = (*LONG, ("d", "e"), ("e", "f"), ("f", "b"))


def nodes(mesh: World, node: str, tree: str = "") -> dict[str, NodeSeen]:
    """Ask everybody; return what each says of itself."""
    call = mesh.send(node, NODES.role, tree=NODES.tree, ask=tree, one_response=True)
    mesh.run()
    seen = [decode_node(item) for item in call.items]
    assert sum(one.is_last for one in call.answers) == 1
    return {one.node: one for one in seen}


def test_54_the_nodes_of_a_tree_with_their_neighbours_on_it() -> None:
    """Spec: tree_layer 11 (54): six entries, and edges are the same from both ends."""
    mesh = world(SIX, roles="af")
    for node in "abcdef":
        ask(mesh, node)
    seen = nodes(mesh, "c", "t")
    assert sorted(seen) == list("abcdef")
    edges = {(one, other) for one, said in seen.items() for other in said.neighbours or ()}
    assert edges
    assert edges == {(other, one) for one, other in edges}
    assert all(one.neighbours is None for one in nodes(mesh, "c", "unknown").values())


def test_everybody_says_who_it_is() -> None:
    """And who came since is not missed, though nobody publishes that it is there."""
    mesh = world(SQUARE)
    seen = nodes(mesh, "a")
    assert {name: one.links for name, one in seen.items()} == {
        "a": ("b", "d"), "b": ("a", "c"), "c": ("b", "d"), "d": ("a", "c"),
    }  # fmt: skip
    mesh.crash("c")
    mesh.run()
    assert sorted(nodes(mesh, "a")) == ["a", "b", "d"]
    mesh.start("c")
    mesh.run()
    assert sorted(nodes(mesh, "a")) == ["a", "b", "c", "d"]


def test_however_many_ask_at_once_everybody_is_heard() -> None:
    """Who asks while others do misses nobody who has come meanwhile, and disturbs no other."""
    mesh = world(tuple(pairwise("abcdefg")), alone="h")
    calls = []
    for at in range(20):
        if at == HALF:
            mesh.heal("a", "h")
        calls.append(mesh.send("a", NODES.role, tree=NODES.tree, one_response=True))
        mesh.run(for_ms=100)
    mesh.run()
    assert [kinds(call) for call in calls] == [[("data", True)]] * len(calls)
    assert len(nodes(mesh, "a")) == len(calls[-1].items)


def test_who_came_while_everybody_was_asked_is_asked_for_the_next_message() -> None:
    """Nobody publishes there, so what was asked before cannot have heard of it. Spec: tree_layer 7.5."""
    mesh = World((("a", "s"),), alone=("n",))
    mesh.run()
    assert sorted(nodes(mesh, "a")) == ["a", "s"]  # from now on s asks nobody for who passes it
    mesh.wires[frozenset("as")].latency_ms = 1_000
    first = mesh.send("a", NODES.role, tree=NODES.tree, one_response=True)
    mesh.heal("a", "n")
    mesh.run(for_ms=500)
    assert "n" in mesh.nodes["a"].links_up
    second = mesh.send("a", NODES.role, tree=NODES.tree, one_response=True)
    assert not first.answers
    mesh.run()
    assert {one.node for one in nodes_in(second.items)} == {"a", "n", "s"}


def test_a_mesh_that_nobody_uses_is_silent() -> None:
    """Utility trees cost nothing until somebody sends."""
    mesh = world(SQUARE)
    assert set(mesh.frames) <= {"Hello", "GetTrees"}


def test_one_node_and_one_realm_can_be_addressed() -> None:
    """A message to one instance of a realm's role gets into it. Spec: tree_layer 7.5."""
    mesh = World((("a", "b"), ("b", "c")), realms=PLACES)
    mesh.run()
    call = mesh.send("a", "r2", tree=REALMS, one_instance=True)
    mesh.run()
    assert [decode_node(item).node for item in call.items] == ["c"]
    call = mesh.send("a", NODES.role, tree=tree_of_node("uuid-b"))
    mesh.run()
    assert [decode_node(item).node for item in call.items] == ["b"]
    mesh.crash("b")
    mesh.run()
    mesh.start("b")
    mesh.run()
    call = mesh.send("a", NODES.role, tree=tree_of_node("uuid-b"))
    mesh.run()
    assert [decode_node(item).node for item in call.items] == ["b"]


def test_no_application_takes_a_role_there() -> None:
    """The node alone speaks for itself."""
    mesh = world(SQUARE)
    for tree in (NODES.tree, REALMS, tree_of_node("uuid-a")):
        assert codes(mesh.role("a", "node", tree=tree)) == ["RESERVED"]


def test_nobody_takes_the_place_that_every_node_has_by_itself() -> None:
    """One who clears it would have taken it from all: nobody was counted, nothing was told."""
    mesh = world(SQUARE)
    assert codes(mesh.step("a", ExclusiveCleared(APP, NODES))) == ["RESERVED"]
    before = mesh.nodes["b"].refused
    for at, told in enumerate((True, False)):
        forged = Publish(
            MessageId(7 + at), *NODES, InstanceId(9 << 96), True, told, at, 1, False, Extent.CLOUD
        )
        said(mesh, "a", "b", forged)
    assert mesh.nodes["b"].refused == before + 2
    assert [one for one in mesh.told if isinstance(one[1], RoleLost)] == []
    mesh.run(for_ms=60_000)
    assert sorted(nodes(mesh, "c")) == ["a", "b", "c", "d"]


def test_an_answer_takes_no_place_that_every_node_has_by_itself() -> None:
    mesh = world()
    mesh.intercept = lambda a, b, frame: [_held_alone(frame)] if (a, b) == ("c", "b") else [frame]
    assert sorted(nodes(mesh, "a")) == ["a", "b"]
    mesh.intercept = None
    assert sorted(nodes(mesh, "a")) == ["a", "b", "c"]


def _held_alone(frame: Frame) -> Frame:
    if not isinstance(frame.body, RecoveryAnswer):
        return frame
    return replace(frame, body=replace(frame.body, is_exclusive=True))
