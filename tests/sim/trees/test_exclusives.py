"""Roles that one alone holds. Spec: tree_layer 11."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.model.tree_apps import ExclusiveCleared, RoleRequest
from mesh.model.tree_frames import Publish
from mesh.model.trees import Extent, InstanceId, MessageId
from mesh.trees.inputs import RolesAdded
from mesh.trees.routes import RoleRoutes
from mesh.trees.settings import Settings
from tests.sim.trees.rules import hosts, inside
from tests.sim.trees.scenes import LONG, ask, codes, said, world
from tests.sim.trees.trial import builder_frames
from tests.sim.trees.world import APP, World, address, lost_by

PLACE = address("t", "e")
LOW = RoleRequest(PLACE, is_exclusive=True, iid=InstanceId(5))
"""What any other holder beats."""

NO_COPIES = Settings(ping_ms=0, copies_trees=False)


def known(mesh: World, node: str) -> RoleRoutes:
    """Return what a node knows of the role that one alone holds."""
    return inside(mesh, node).trees[PLACE.tree].roles[PLACE.role]


def test_26_of_two_holders_the_higher_one_stays() -> None:
    """Spec: tree_layer 11 (26), Q6. PAT-7."""
    mesh = world()
    mesh.role("a", "e", is_exclusive=True)
    mesh.role("c", "e", is_exclusive=True)
    iids = {node: found[0] for node, found in hosts(mesh, address("t", "e")).items()}
    mesh.run()
    higher = max(iids, key=iids.get)
    lower = min(iids, key=iids.get)
    assert list(hosts(mesh, address("t", "e"))) == [higher]
    assert [one.address.role for one in lost_by(mesh, lower)] == ["e"]
    for node in "abc":
        assert ask(mesh, node, "e").reached == [higher]


def test_27_an_exclusive_role_ends_the_shared_ones() -> None:
    """Spec: tree_layer 11 (27)."""
    mesh = world(LONG, roles="ab")
    mesh.role("c", "r", is_exclusive=True)
    mesh.run()
    assert list(hosts(mesh, address("t", "r"))) == ["c"]
    assert lost_by(mesh, "a")
    assert lost_by(mesh, "b")
    assert codes(mesh.role("d", "r")) == ["EXCLUSIVE_HELD"]


def test_28_two_parts_with_a_holder_each_heal_to_one() -> None:
    """Spec: tree_layer 11 (28), H15."""
    mesh = world(LONG)
    mesh.cut("b", "c")
    mesh.run()
    mesh.role("a", "e", is_exclusive=True)
    mesh.role("d", "e", is_exclusive=True)
    mesh.run()
    mesh.heal("b", "c")
    mesh.run()
    found = hosts(mesh, address("t", "e"))
    assert len(found) == 1
    assert len(lost_by(mesh, "a")) + len(lost_by(mesh, "d")) == 1
    assert ask(mesh, "a", "e").reached == list(found)


def test_29_a_dead_holder_is_cleared() -> None:
    """Spec: tree_layer 11 (29). PAT-8."""
    mesh = world(LONG)
    mesh.role("d", "e", is_exclusive=True)
    mesh.run()
    mesh.crash("d")
    mesh.run()
    mesh.step("a", ExclusiveCleared("", address("t", "e")))
    mesh.run()
    assert codes(mesh.step("b", RolesAdded(APP, (LOW,)))) == []
    mesh.run()
    assert ask(mesh, "c", "e").reached == ["b"]


def test_a_holder_that_answers_is_known_from_then_on() -> None:
    """What it says is newer than what was lost of it. Spec: tree_layer 5.2, 5.4 (H2, H15)."""
    mesh = world((("a", "b"), ("b", "c"), ("c", "a")), settings=NO_COPIES)
    mesh.role("a", "e", is_exclusive=True)
    mesh.run()
    mesh.cut("c", "a")
    mesh.run()
    mesh.heal("c", "a")
    mesh.run()
    assert not known(mesh, "c").everywhere.routes
    mesh.step("c", RolesAdded(APP, (LOW,)))
    mesh.run()
    assert lost_by(mesh, "c")
    before = builder_frames(mesh)
    assert ask(mesh, "c", "e").reached == ["a"]
    assert builder_frames(mesh) == before


@pytest.mark.parametrize(
    ("realms", "is_inside"),
    [({}, False), (dict.fromkeys("abcx", "r"), True), (dict.fromkeys("bcx", "r"), False)],
)
def test_who_answers_for_a_holder_says_what_it_knows(
    realms: dict[str, str], is_inside: bool
) -> None:
    """How new that is, how far, and whether the way stays in the realm. Spec: tree_layer 5.4 (H15), 5.14."""
    wires = (("a", "b"), ("b", "c"), ("c", "x"), ("x", "a"))
    mesh = world(wires, realms=realms, settings=NO_COPIES)
    mesh.role("a", "e", is_exclusive=True)
    mesh.run()
    [lost] = known(mesh, "c").everywhere.routes.values()
    teller = "x" if lost.link == "b" else "b"
    mesh.cut("c", lost.link)
    mesh.run()
    known(mesh, teller).everywhere.doubt()
    ask(mesh, teller, "e")
    mesh.step("c", RolesAdded(APP, (LOW,)))
    mesh.run()
    assert lost_by(mesh, "c")
    [route] = known(mesh, "c").everywhere.routes.values()
    [told] = known(mesh, teller).everywhere.routes.values()
    assert (route.link, route.seq, route.hops) == (teller, told.seq, told.hops + 1)
    assert told.seq > lost.seq
    assert bool(known(mesh, "c").realm.routes) == is_inside


def test_a_loser_is_told_though_the_way_to_the_holder_is_not_new() -> None:
    """It was lost with a link; that the holder has ended nobody has said. Spec: tree_layer 5.2, 5.4 (H15)."""
    mesh = world((("a", "b"), ("b", "c"), ("c", "x"), ("x", "a")), settings=NO_COPIES)
    mesh.role("a", "e", is_exclusive=True)
    mesh.run()
    [lost] = known(mesh, "c").everywhere.routes.values()
    mesh.cut("c", lost.link)
    mesh.run()
    mesh.step("c", RolesAdded(APP, (LOW,)))
    mesh.run()
    assert lost_by(mesh, "c")
    assert not known(mesh, "c").everywhere.routes
    assert list(hosts(mesh, PLACE)) == ["a"]


@pytest.mark.parametrize("copies", [False, True])
def test_a_holder_that_was_found_is_known_to_hold_it(copies: bool) -> None:
    """Who joins has heard of no publish. Spec: tree_layer 5.4, 5.16, 8."""
    settings = Settings(ping_ms=0, copies_trees=copies)
    mesh = world((("a", "b"), ("b", "x")), settings=settings)
    mesh.crash("x")
    mesh.run()
    mesh.role("a", "e", is_exclusive=True)
    mesh.run()
    mesh.start("x")
    mesh.run()
    if not copies:
        ask(mesh, "x", "e")
    assert codes(mesh.role("x", "e")) == ["EXCLUSIVE_HELD"]
    assert ask(mesh, "x", "e").reached == ["a"]


@pytest.mark.parametrize("is_asked", [False, True])
def test_a_holder_that_is_found_again_ends_who_took_its_role_meanwhile(is_asked: bool) -> None:
    """By what it says anew, or by its answer to a recovery. Spec: tree_layer 5.4."""
    mesh = world((("a", "b"), ("b", "c"), ("c", "a")), settings=NO_COPIES)
    mesh.role("a", "e", is_exclusive=True)
    mesh.run()
    [lost] = known(mesh, "c").everywhere.routes.values()
    mesh.cut("c", lost.link)
    mesh.run()
    assert not codes(mesh.role("c", "e", extent=Extent.NODE))
    assert list(hosts(mesh, PLACE)) == ["a", "c"]
    if is_asked:
        mesh.send("c", "e")
    else:
        [iid] = hosts(mesh, PLACE)["a"]
        kept = (iid, True, True, lost.seq + 1, 2, False, Extent.CLOUD)
        [link] = mesh.nodes["c"].links_up
        said(mesh, link, "c", Publish(MessageId(99 << 64), *PLACE, *kept))
    mesh.run()
    assert list(hosts(mesh, PLACE)) == ["a"]
    assert lost_by(mesh, "c")


@pytest.mark.parametrize("is_held", [False, True])
def test_who_gave_a_role_up_keeps_nobody_out(is_held: bool) -> None:
    """A word of it that was still on its way brings nothing back. Spec: tree_layer 5.3 (H2)."""
    mesh = world()
    mesh.log = []
    mesh.role("c", "e", is_exclusive=True)
    mesh.run()
    late = next(
        frame.body for _, _, to, frame in mesh.log if to == "a" and isinstance(frame.body, Publish)
    )
    mesh.unrole("c", "e")
    mesh.run()
    if is_held:
        mesh.role("a", "e")
    said(mesh, "b", "a", replace(late, id=MessageId(99 << 64), hops=1))
    assert not known(mesh, "a").everywhere.routes
    assert not lost_by(mesh, "a")
    if not is_held:
        assert not codes(mesh.role("a", "e"))
    mesh.role("b", "s")  # which takes the link down: the stranger wrote in the place of this
    mesh.run()
    call = mesh.send("c", "e")
    mesh.run()
    assert call.reached == ["a"]


def test_a_clear_that_comes_late_leaves_who_took_the_role_since() -> None:
    """Their hosts keep them, so the way there stays known. Spec: tree_layer 5.3."""
    mesh = world(LONG, settings=NO_COPIES)
    mesh.role("c", "r", is_exclusive=True)
    mesh.run()
    mesh.unrole("c", "r")
    mesh.run()
    mesh.wires[frozenset("ab")].latency_ms = 500
    for role in ("other", "another", "r"):  # its clock is ahead of what a has heard
        mesh.role("d", role)
    mesh.run(for_ms=100)
    mesh.step("a", ExclusiveCleared("", address("t", "r")))
    mesh.run()
    mesh.role("c", "r")
    mesh.run()
    assert ask(mesh, "b").reached == ["c", "d"]
