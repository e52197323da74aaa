"""Messages of one sender come to an instance in the order in which they were sent.

Spec: tree_layer 10 (Q11), 13.
"""

from __future__ import annotations

import pytest

from mesh.model.tree_apps import SendWanted
from mesh.model.tree_frames import Options
from mesh.model.trees import Extent
from mesh.trees.settings import Settings
from tests.sim.trees.rules import check_quiet, inside
from tests.sim.trees.scenes import LONG, ask, world
from tests.sim.trees.world import Call, World, address

PLACE = address("t", "r")


def doubted(mesh: World, node: str, scope: Extent = Extent.CLOUD) -> None:
    """Let a node be sure of its map no more, though it knows ways: the next send recovers."""
    inside(mesh, node).trees[PLACE.tree].roles["r"].map(scope).doubt()


def in_order(mesh: World) -> list[str]:
    """Return what instances are given from now on, as it comes."""
    given: list[str] = []
    said = mesh.answers_of
    mesh.answers_of = lambda node, one: [
        given.append(one.payload.decode().split()[1]),
        *said(node, one),
    ][1:]
    return given


@pytest.mark.parametrize("doubting", ["a", "b", "c"])
@pytest.mark.parametrize("count", [1, 3])
def test_a_message_for_one_instance_overtakes_none_that_was_sent_before(
    doubting: str, count: int
) -> None:
    """One that is for all waits for a recovery, and one that need not wait is behind it."""
    mesh = world(LONG, roles="d", settings=Settings(ping_ms=0, copies_trees=False))
    ask(mesh, "a")
    doubted(mesh, doubting)
    given = in_order(mesh)
    mesh.send("a", "r", payload="first")
    for number in range(count):
        mesh.send("a", "r", payload=f"{number}", one_instance=True)
    mesh.send("a", "r", payload="last")
    mesh.run()
    check_quiet(mesh)
    assert given == ["first", *map(str, range(count)), "last"]


def test_a_message_within_the_realm_overtakes_none_that_goes_everywhere() -> None:
    """They follow different maps, and lead to the same instance."""
    mesh = world(LONG, roles="d", realms=dict.fromkeys("abcd", "r1"))
    ask(mesh, "a"), ask(mesh, "a", local_realm=True)
    doubted(mesh, "a")
    given = in_order(mesh)
    mesh.send("a", "r", payload="first")
    mesh.send("a", "r", payload="second", local_realm=True)
    mesh.run()
    check_quiet(mesh)
    assert given == ["first", "second"]


def test_who_has_sent_nothing_before_does_not_wait() -> None:
    """A message for one instance goes on with the first way that there is. Spec: tree_layer 5.8."""
    mesh = world(LONG, roles="d", settings=Settings(ping_ms=0, copies_trees=False))
    ask(mesh, "a")
    doubted(mesh, "a")
    given = in_order(mesh)
    mesh.send("a", "r", payload="of_app")
    options = Options(one_instance=True)
    mesh.calls["other"] = Call("a", PLACE, options, mesh.now_ms)
    mesh.step("a", SendWanted("another", "other", PLACE, b"other of_another", b"", options))
    mesh.run()
    assert given.index("of_another") < given.index("of_app")


def test_a_null_of_another_message_is_none_of_one_that_waits_behind_it() -> None:
    """Not everybody could be asked for the first; the second has found whom it was for."""
    wires = (*LONG, ("a", "z"))
    mesh = world(wires, roles="d", settings=Settings(ping_ms=0, copies_trees=False))
    ask(mesh, "a")
    doubted(mesh, "a")
    mesh.intercept = lambda node, _, frame: [] if node == "z" else [frame]
    first = mesh.send("a", "r", payload="first")
    second = mesh.send("a", "r", payload="second", one_instance=True)
    mesh.run()
    assert first.items == second.items == [b"d"]
    assert [one.kind.value for one in first.answers] == ["null", "data"]
    assert [one.kind.value for one in second.answers] == ["data"]
