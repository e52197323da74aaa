"""What was apart becomes one. Spec: tree_layer 11."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, product

import pytest

from mesh.model.tree_apps import (
    Unpartitioned,
)
from mesh.model.tree_frames import HealNotice, Hello
from mesh.model.trees import Colour, Extent
from mesh.trees.settings import Settings
from tests.sim.trees.rules import inside
from tests.sim.trees.scenes import (
    LINE,
    LONG,
    SQUARE,
    STAR,
    ask,
    said,
    world,
)
from tests.sim.trees.world import (
    World,
)


def test_34_what_was_apart_finds_each_other_without_a_publish() -> None:
    """Spec: tree_layer 11 (34), Q7, R18. PAT-9, PAT-10."""
    mesh = world(LONG)
    mesh.cut("b", "c")
    mesh.run()
    mesh.role("a", "r"), mesh.role("d", "r")
    mesh.run()
    for node in "abcd":
        ask(mesh, node), ask(mesh, node)
    published = mesh.frames["Publish"]
    mesh.heal("b", "c")
    mesh.run()
    assert ask(mesh, "a").reached == ["a", "d"]
    assert ask(mesh, "d").reached == ["a", "d"]
    assert mesh.frames["Publish"] == published
    told = [node for node, one in mesh.told if isinstance(one, Unpartitioned)]
    assert set(told) == set("abcd")


def test_35_a_bridge_that_restarts_wakes_both_halves() -> None:
    """Spec: tree_layer 11 (35), H13."""
    mesh = world(LONG, roles="ad")
    for node in "ad":
        ask(mesh, node)
    mesh.crash("b")
    mesh.run()
    ask(mesh, "a"), ask(mesh, "d")
    mesh.start("b")
    mesh.run()
    assert ask(mesh, "a").reached == ["a", "d"]
    assert ask(mesh, "d").reached == ["a", "d"]


def restarted(wires, coloured: str, *, at_once: bool = True, **options) -> World:
    """Make a mesh of parts that know themselves, and start what lies between them again.

    Args:
        wires: Of the mesh.
        coloured: The nodes that stay; each of them holds r, and has asked for it.
        at_once: All others start at one moment, not one after the other.
        options: Of the world.
    """
    made = world(wires, roles=coloured, **options)
    between = [name for name in made.nodes if name not in coloured]
    for node in between:
        made.crash(node)
    made.run()
    for node in coloured:
        ask(made, node)
    made.told.clear()
    for node in between:
        made.start(node)
        made.run(for_ms=0 if at_once else made.random.randint(0, 120))
    made.run()
    return made


def heals_of(mesh: World, scope: Extent = Extent.CLOUD) -> Counter[tuple[str, str]]:
    """Return which ends of links have told of a heal, and how often."""
    told = [one for _, one in mesh.told if isinstance(one, Unpartitioned)]
    ids = {(one.id, one.near, one.far) for one in told if one.scope is scope}
    return Counter((near, far) for _, near, far in ids)


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("between", ["b", "bc", "bce", "bcef"])
def test_nodes_that_restart_side_by_side_wake_both_parts(between: str, at_once: bool) -> None:
    """They have met without a colour; each part enters at its end. Spec: tree_layer 10 (Q7), H13."""
    way = f"a{between}d"
    for seed in range(5):
        mesh = restarted(tuple(pairwise(way)), "ad", at_once=at_once, seed=seed)
        heals = heals_of(mesh)
        assert len(heals) == 2, seed
        assert heals == {ends[::-1]: 1 for ends in heals}
        for node in way:
            assert ask(mesh, node).reached == ["a", "d"], seed


def test_parts_of_a_realm_are_woken_by_nodes_that_restart_between_them() -> None:
    """The mesh stays one part, by way of z, and no colour of the mesh tells. Spec: H16."""
    realms = {**dict.fromkeys("abcd", "r1"), "z": "r2"}
    for seed in range(5):
        mesh = restarted((*LONG, ("a", "z"), ("z", "d")), "azd", seed=seed, realms=realms)
        heals = heals_of(mesh, Extent.REALM)
        assert heals
        assert heals == {ends[::-1]: 1 for ends in heals}
        assert not heals_of(mesh)
        assert ask(mesh, "a", local_realm=True).reached == ["a", "d"]
        assert ask(mesh, "d", local_realm=True).reached == ["a", "d"]


def test_nodes_that_restart_beside_one_part_bring_no_heal() -> None:
    """Whoever they meet, they come to the same part."""
    triangle = (("a", "b"), ("b", "c"), ("c", "a"))
    for wires, seed in product((triangle, LINE, SQUARE, (*SQUARE, ("b", "d"))), range(5)):
        stay = "ad" if wires is SQUARE else "a"
        assert not heals_of(restarted(wires, stay, seed=seed)), (wires, seed)


def test_a_colour_that_a_peer_names_again_is_no_second_meeting() -> None:
    """It has changed while HELLO was repeated: that is news of one part."""
    mesh = world(LINE)
    end = inside(mesh, "b").links["a"]
    again = [
        Hello("uuid-a", 1, end.mine, "", colour, None, 9)
        for colour in (None, Colour(7, 1), Colour(8, 1))
    ]
    outputs = [one for hello in again for one in said(mesh, "a", "b", hello)]
    assert mesh.nodes["b"].colour == Colour(7, 1)
    assert not [one for one in outputs if isinstance(one, Unpartitioned)]


def test_a_boot_brings_no_heal() -> None:
    """All meet without a colour; those of several who use a role first cross. Spec: H14."""
    realms = dict.fromkeys("abcdef", "r1")
    for seed, wires in product(range(5), (LONG, SQUARE, STAR)):
        mesh = World(wires, seed=seed, realms=realms)
        mesh.run()
        for node in mesh.nodes:
            mesh.role(node, "r")
            mesh.send(node, "r")
        mesh.run()
        heals = [one for _, one in mesh.told if isinstance(one, Unpartitioned)]
        assert not heals
        assert ask(mesh, "a").reached == sorted(mesh.nodes)


def test_two_that_have_asked_alone_notice_when_they_meet() -> None:
    """Who has looked for a role has something to lose, though it found nobody. Spec: H14."""
    mesh = World((), alone="ab")
    for node in "ab":
        ask(mesh, node)
    mesh.heal("a", "b")
    mesh.run()
    assert {node for node, one in mesh.told if isinstance(one, Unpartitioned)} == {"a", "b"}


def test_36_three_parts_heal_at_once() -> None:
    """Spec: tree_layer 11 (36), Q5, R18."""
    mesh = world((*LONG, ("d", "e"), ("e", "f")))
    mesh.cut("b", "c"), mesh.cut("d", "e")
    mesh.run()
    for node in "ace":
        mesh.role(node, "r")
        mesh.run()
        ask(mesh, node)
    mesh.heal("b", "c"), mesh.heal("d", "e")
    mesh.run()
    for node in "abcdef":
        assert ask(mesh, node).reached == ["a", "c", "e"]
    assert len({mesh.nodes[node].colour for node in "abcdef"}) == 1


def test_37_a_node_that_was_alone_is_told_of_its_first_link() -> None:
    """Spec: tree_layer 11 (37), H14."""
    mesh = World((("a", "b"),), alone="z")
    mesh.run()
    for node in "az":
        mesh.role(node, "r")
        mesh.run()
        ask(mesh, node)
    mesh.heal("a", "z")
    mesh.run()
    assert any(isinstance(one, Unpartitioned) for node, one in mesh.told if node == "z")
    for node in "abz":
        assert ask(mesh, node).reached == ["a", "z"]


def test_38_a_flap_does_no_harm() -> None:
    """Spec: tree_layer 11 (38), R18."""
    mesh = world(SQUARE, roles="ac")
    ask(mesh, "b")
    mesh.cut("a", "b", (0, 20))
    mesh.run(for_ms=5)
    mesh.heal("a", "b")
    mesh.run()
    for node in "abcd":
        assert ask(mesh, node).reached == ["a", "c"]


def test_a_link_of_a_ring_that_is_lost_and_comes_back_brings_no_heal() -> None:
    """All take the new colour by the other way: both ends have it when they meet again.

    Spec: tree_layer 7.1, PAT-9.
    """
    mesh = world(SQUARE, roles="ac")
    ask(mesh, "b")
    before = {mesh.nodes[node].colour for node in "abcd"}
    mesh.cut("a", "b")
    mesh.run()
    after = {mesh.nodes[node].colour for node in "abcd"}
    assert len(before) == len(after) == 1
    assert before != after
    mesh.heal("a", "b")
    mesh.run()
    assert {mesh.nodes[node].colour for node in "abcd"} == after
    assert not [one for _, one in mesh.told if isinstance(one, Unpartitioned)]
    assert ask(mesh, "b").reached == ["a", "c"]


def test_each_side_is_told_its_colour_and_the_other_s() -> None:
    """Of two that wrote apart, who gives way is decided by that. Spec: tree_layer 7.4."""
    mesh = world(LONG, roles="ad")
    mesh.cut("b", "c")
    mesh.run()
    left, right = mesh.nodes["a"].colour, mesh.nodes["d"].colour
    assert left != right
    mesh.told.clear()
    mesh.heal("b", "c")
    mesh.run()
    heals = {node: one for node, one in mesh.told if isinstance(one, Unpartitioned)}
    sides = {node: (one.near_colour, one.far_colour) for node, one in heals.items()}
    assert sides == {"a": (left, right), "b": (left, right), "c": (right, left), "d": (right, left)}
    assert {one.colour for one in heals.values()} == {mesh.nodes["a"].colour}
    assert mesh.nodes["a"].colour == max(left, right)


def test_what_sides_were_called_is_not_made_up() -> None:
    """A peer of an earlier release tells what both are called now, and no more."""
    mesh = world(LONG, roles="ad")
    mesh.told.clear()
    colour = Colour(50, 7)
    said(mesh, "b", "c", HealNotice(Extent.CLOUD, colour))
    [heal] = [one for node, one in mesh.told if node == "c" and isinstance(one, Unpartitioned)]
    assert (heal.colour, heal.near_colour, heal.far_colour) == (colour, None, None)


NO_COPIES = Settings(ping_ms=0, copies_trees=False)


def late_link(mesh: World) -> None:
    """Link c to u, then lose what b has on its way to u: all of it stays one part."""
    mesh.run(for_ms=300)
    mesh.heal("c", "u")
    mesh.run(for_ms=400)
    assert set(mesh.nodes["u"].links_up) == {"b", "c", "z"}
    mesh.cut("b", "u")
    mesh.run()


def test_news_that_is_lost_with_a_link_comes_over_one_that_came_up_before() -> None:
    """A publish had passed c by then. Spec: tree_layer 5.2 (H3), 10 (Q1)."""
    wires = (("y", "b"), ("b", "u"), ("b", "c"), ("u", "z"))
    mesh = world(wires, roles="z", settings=NO_COPIES)
    ask(mesh, "u")
    mesh.wires[frozenset("bu")].latency_ms = 2_000
    mesh.role("y", "r")
    late_link(mesh)
    assert ask(mesh, "u").reached == ["y", "z"]


def test_a_heal_whose_news_is_lost_with_a_link_is_known_behind_it() -> None:
    """Nothing else would have u ask for what is behind x. Spec: tree_layer 7.2, 10 (Q7)."""
    wires = (("x", "y"), ("y", "b"), ("b", "u"), ("b", "c"), ("u", "z"))
    mesh = world(wires, roles="z", settings=NO_COPIES)
    mesh.cut("x", "y")
    mesh.run()
    mesh.role("x", "r")
    mesh.run()
    mesh.cut("b", "c")
    mesh.run()
    mesh.heal("b", "c")
    mesh.run()
    assert ask(mesh, "u").reached == ["z"]
    mesh.wires[frozenset("bu")].latency_ms = 2_000
    mesh.heal("x", "y")
    late_link(mesh)
    assert ask(mesh, "u").reached == ["x", "z"]


def test_more_heals_than_are_told_apart_mean_that_everybody_is_asked() -> None:
    """The list is given up, and not what it was kept for. Spec: H21."""
    mesh = world(LONG, settings=Settings(ping_ms=0, directed_recovery=True, heals_max=2))
    for role in ("r0", "r1", "r2", "r3", "r4"):
        mesh.role("a", role)
        mesh.run()
        ask(mesh, "a", role)
        mesh.cut("b", "c")
        mesh.run()
        mesh.role("d", role)
        mesh.run()
        mesh.heal("b", "c")
        mesh.run()
        assert all(len(inside(mesh, node).heals) <= 2 for node in "abcd")
        assert ask(mesh, "a", role).reached == ["a", "d"]


def test_a_second_link_between_two_parts_brings_no_second_heal() -> None:
    """News of one side, told over it, is what the other side knows. Spec: tree_layer 7.2 (H13), R18."""
    mesh = world((("a", "b"), ("c", "d")), roles="ad")
    mesh.heal("b", "c")
    mesh.run()
    mesh.heal("a", "d")
    mesh.run()
    heals = [(name, one.near) for name, one in mesh.told if isinstance(one, Unpartitioned)]
    assert sorted(heals) == [("a", "b"), ("b", "b"), ("c", "c"), ("d", "c")]


@pytest.mark.parametrize(("after_ms", "is_told"), [(28_000, True), (31_000, False)])
def test_a_link_that_comes_up_is_told_of_the_last_half_minute(after_ms: int, is_told: bool) -> None:
    """Of what went to everybody before nothing can be under way any more. Spec: tree_layer 5.2."""
    mesh = world()
    mesh.role("b", "r")
    mesh.run(for_ms=after_ms)
    before = mesh.frames["Publish"]
    mesh.heal("a", "c")
    mesh.run(for_ms=1_000)
    assert "c" in mesh.nodes["a"].links_up
    assert (mesh.frames["Publish"] > before) == is_told
