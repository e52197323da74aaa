"""One instance of several: the nearest, and another if that one is gone. Spec: tree_layer 11."""

from __future__ import annotations

import pytest

from mesh.model.tree_frames import Cause, Frame, RecoveryAnswer, RecoveryDone, Reopen
from mesh.model.trees import MessageId
from mesh.trees.settings import Settings
from tests.sim.trees.rules import inside
from tests.sim.trees.scenes import STAR, ask, kinds, world
from tests.sim.trees.world import address


def test_18_19_one_instance_tries_on() -> None:
    """Spec: tree_layer 11 (18, 19), H18, I5, Q3."""
    mesh = world(STAR, roles="bcd")
    ask(mesh, "a")
    assert len(ask(mesh, "a", one_instance=True).reached) == 1
    role = inside(mesh, "a").trees[address("t", "r").tree].roles["r"]
    node_b = inside(mesh, "b")
    node_b.hosts.by_tree.clear()  # the table of a is stale from here on
    call = mesh.send("a", "r", one_instance=True)
    mesh.run()
    assert call.reached in (["c"], ["d"])
    assert sum(last for _, last in kinds(call)) == 1
    for node in "cd":
        inside(mesh, node).hosts.by_tree.clear()
    inside(mesh, "f").hosts.by_tree[address("t", "r").tree] = {}
    mesh.role("f", "q")
    assert role.everywhere.routes
    call = mesh.send("a", "r", one_instance=True)
    mesh.run()
    assert kinds(call) == [("not_found", True)]


@pytest.mark.parametrize("roles", ["bc", "b"])
def test_one_instance_tries_on_though_not_everybody_could_be_asked(roles: str) -> None:
    """The null says that somebody may have been missed, not that anybody has it. H18.

    Where there is nobody else it is not said that there is none. PAT-5.
    """
    wires = (("a", "b"), ("a", "c"), ("a", "z"))
    mesh = world(wires, roles=roles, settings=Settings(ping_ms=0, copies_trees=False))
    inside(mesh, "a").trees.clear()
    stale: list[str] = []

    def change(node: str, _: str, frame: Frame) -> list[Frame]:
        is_answer = isinstance(frame.body, RecoveryAnswer)
        if is_answer and node != "z" and not stale:
            stale.append(node)  # it has answered, is asked first, and has none any more
            inside(mesh, node).hosts.by_tree.clear()
        is_silent = is_answer or isinstance(frame.body, RecoveryDone)
        is_lost = node == "z" and is_silent
        return [Frame(frame.session, frame.number, Reopen(MessageId(1)))] if is_lost else [frame]

    mesh.intercept = change
    call = mesh.send("a", "r", one_instance=True)
    mesh.run()
    assert call.reached == [one for one in roles if one not in stale]
    assert kinds(call)[-1] == ("data" if call.reached else "end", True)
    assert {one.cause for one in call.answers[:-1]} == {Cause.RECOVERY_INCOMPLETE}


def test_one_instance_waits_for_no_more_than_one_way() -> None:
    """A neighbour that answers nothing delays nobody who looks for one. Spec: tree_layer 5.8."""
    wires = (("a", "b"), ("a", "z"), ("b", "c"))
    mesh = world(wires, roles="c", settings=Settings(ping_ms=0, copies_trees=False))
    inside(mesh, "a").trees.clear()
    mesh.intercept = lambda a, _, frame: [] if a == "z" else [frame]
    one, every = (mesh.send("a", "r", one_instance=is_one) for is_one in (True, False))
    mesh.run(for_ms=500)
    assert kinds(one) == [("data", True)]
    assert every.answers == []
    assert inside(mesh, "a").recoveries
    mesh.run()
    assert every.reached == ["c"]
    assert every.answers[0].cause is Cause.RECOVERY_INCOMPLETE
