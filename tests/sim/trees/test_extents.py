"""Roles that are known in a realm, or at a node, alone, and who holds them alone there.

Spec: tree_layer 5.2, 5.4, 5.14.
"""

from __future__ import annotations

from random import Random

import pytest

from mesh.model.tree_apps import RoleLost, RoleRequest
from mesh.model.tree_frames import ReplyKind
from mesh.model.trees import Extent, InstanceId
from mesh.trees.inputs import RolesAdded
from mesh.trees.settings import Settings
from tests.sim.trees.rules import check_always, check_rest, inside
from tests.sim.trees.scenes import hold_answers, world
from tests.sim.trees.trial import builder_frames
from tests.sim.trees.world import APP, Call, World, address, lost_by

PLACE = address("t", "r")
BRIDGE = (("a", "b"), ("b", "h"), ("b", "c"))
"""Whatever a and c say to each other passes b, which knows a holder in its realm, or is one."""

OUTER = {"a": "r2", "b": "r1", "h": "r1", "c": "r2"}


def told_apart(mesh: World, node: str, **options: bool) -> Call:
    """Send, and let all come to rest."""
    call = mesh.send(node, "r", **options)
    mesh.run()
    check_rest(mesh)
    return call


@pytest.mark.parametrize("extent", [Extent.NODE, Extent.REALM])
@pytest.mark.parametrize("is_alone", [False, True])
@pytest.mark.parametrize("is_first", [False, True])
def test_a_holder_of_a_realm_is_passed_by_on_the_way_to_others(
    extent: Extent, is_alone: bool, is_first: bool
) -> None:
    """Whichever was there first: beyond, the role is theirs. Spec: tree_layer 5.2, 10 (Q1)."""
    mesh = world(BRIDGE, realms=OUTER)
    holder = "h" if extent is Extent.REALM else "b"
    takes = [
        lambda: mesh.role(holder, "r", is_exclusive=True, extent=extent),
        lambda: mesh.step("a", RolesAdded(APP, (RoleRequest(PLACE, is_alone, iid=InstanceId(5)),))),
    ]
    for take in takes if is_first else reversed(takes):
        take()
        mesh.run()
    for _ in range(3):
        for node in "ac":
            assert told_apart(mesh, node).reached == ["a"]
        assert told_apart(mesh, "b").reached == [holder]
        assert told_apart(mesh, "h").reached == (["h"] if extent is Extent.REALM else ["a"])
    before = builder_frames(mesh)
    for node in "abch":
        told_apart(mesh, node), told_apart(mesh, node, one_instance=True)
    assert builder_frames(mesh) == before
    assert not [one for one in mesh.told if isinstance(one[1], RoleLost)]


def test_a_realm_whose_holder_has_gone_finds_others_again() -> None:
    """Those whom it kept out there. Spec: tree_layer 5.3, 5.4."""
    mesh = world(BRIDGE, realms=OUTER)
    mesh.role("a", "r")
    mesh.role("h", "r", is_exclusive=True, extent=Extent.REALM)
    mesh.run()
    assert told_apart(mesh, "b").reached == ["h"]
    mesh.unrole("h", "r")
    mesh.run()
    for node in "abch":
        assert told_apart(mesh, node).reached == ["a"]


@pytest.mark.parametrize("after_ms", range(5, 40, 10))
def test_who_is_asked_for_in_the_realm_alone_may_go_meanwhile(after_ms: int) -> None:
    """Then others are asked for as well: nobody had looked beyond. Spec: tree_layer 5.8."""
    wires = (("a", "b"), ("b", "x"))
    settings = Settings(ping_ms=0, copies_trees=False)
    mesh = world(wires, realms={"a": "r1", "b": "r1", "x": "r2"}, settings=settings)
    mesh.cut("a", "b")
    mesh.role("x", "r")
    mesh.run()
    mesh.heal("a", "b")
    mesh.run()
    mesh.role("b", "r", is_exclusive=True, extent=Extent.REALM)
    mesh.run()
    inside(mesh, "a").trees[PLACE.tree].roles["r"].realm.doubt()
    call = mesh.send("a", "r")
    mesh.run(for_ms=after_ms)
    mesh.unrole("b", "r")
    mesh.run()
    assert (call.reached, call.count(ReplyKind.NOT_FOUND)) == (["x"], 0)


@pytest.mark.parametrize("extent", [Extent.REALM, Extent.CLOUD])
def test_a_message_for_the_holder_here_goes_to_nobody_who_comes_late(extent: Extent) -> None:
    """Spec: tree_layer 5.4, 6.6."""
    mesh = world((("a", "b"),), realms={"a": "r1", "b": "r1"})
    mesh.role("a", "r", is_exclusive=True, extent=Extent.NODE)
    mesh.run()
    hold_answers(mesh)
    call = mesh.send("a", "r")
    mesh.run(for_ms=500)
    mesh.role("b", "r", extent=extent)
    mesh.run(for_ms=2_000)
    assert call.reached == ["a"]


@pytest.mark.parametrize("one_response", [False, True])
def test_what_went_to_a_holder_who_is_no_more_goes_to_others(one_response: bool) -> None:
    """Far nodes of the realm are not told of a crash: the way there is found stale. Spec: tree_layer 5.11, H9."""
    wires = (("a", "b"), ("b", "c"), ("c", "h"))
    mesh = world(wires, realms={"a": "r2", "b": "r1", "c": "r1", "h": "r1"})
    mesh.role("a", "r")
    mesh.role("h", "r", is_exclusive=True, extent=Extent.REALM)
    mesh.run()
    assert told_apart(mesh, "b").reached == ["h"]
    mesh.crash("h")
    mesh.run()
    call = told_apart(mesh, "b", one_response=one_response)
    assert (call.reached, call.items) == (["a"], [b"a"])
    assert not call.count(ReplyKind.NOT_FOUND)
    assert told_apart(mesh, "c").reached == ["a"]


def test_a_realm_that_holds_a_role_asks_nobody_beyond() -> None:
    """Though the way to its holder has to be found again. Spec: tree_layer 5.4, 5.8."""
    wires = (("a", "b"), ("b", "c"), ("c", "h"), ("h", "b"), ("b", "x"))
    settings = Settings(ping_ms=0, copies_trees=False)
    realms = {"a": "r2", "b": "r1", "c": "r1", "h": "r1", "x": "r2"}
    mesh = world(wires, realms=realms, settings=settings)
    mesh.role("a", "r")
    mesh.role("h", "r", is_exclusive=True, extent=Extent.REALM)
    mesh.run()
    assert told_apart(mesh, "b").reached == ["h"]
    assert told_apart(mesh, "x").reached == ["a"]
    assert inside(mesh, "b").trees[PLACE.tree].roles["r"].everywhere.is_certified
    mesh.cut("b", "h")
    mesh.run()
    for node in "bch":
        assert told_apart(mesh, node).reached == ["h"]
    assert told_apart(mesh, "a").reached == ["a"]


def test_who_gave_way_in_a_realm_is_looked_for_by_nobody() -> None:
    """Also once the holder has gone: it took the way to all whom it kept out. Spec: tree_layer 5.4."""
    mesh = world(BRIDGE, realms=OUTER)
    mesh.role("b", "r", extent=Extent.REALM)
    mesh.run()
    mesh.role("h", "r", is_exclusive=True, extent=Extent.REALM)
    mesh.run()
    assert lost_by(mesh, "b")
    mesh.unrole("h", "r")
    mesh.run()
    for node in "bh":
        assert not told_apart(mesh, node).reached
    assert mesh.frames["RouteBreak"] == 0


def test_one_instance_waits_for_no_more_than_the_holder_of_the_realm() -> None:
    """A neighbour that answers nothing delays nobody who has heard of it. Spec: tree_layer 5.8."""
    settings = Settings(ping_ms=0, copies_trees=False)
    mesh = world((("b", "h"), ("b", "z")), realms=dict.fromkeys("bhz", "r1"), settings=settings)
    mesh.role("h", "r", is_exclusive=True, extent=Extent.REALM)
    mesh.run()
    inside(mesh, "b").trees.clear()
    mesh.intercept = lambda node, _, frame: [] if node == "z" else [frame]
    call = mesh.send("b", "r", one_instance=True)
    mesh.run(for_ms=500)
    assert (call.reached, call.items) == (["h"], [b"h"])


def test_no_copy_of_what_lies_beyond_hides_the_holder_of_the_realm() -> None:
    """A copy does not say who holds a role in the realm alone. Spec: tree_layer 5.16."""
    mesh = world((("a", "b"), ("b", "h"), ("b", "j")), realms=OUTER | {"j": "r1"})
    mesh.crash("j")
    mesh.role("a", "r")
    mesh.role("h", "r", is_exclusive=True, extent=Extent.REALM)
    mesh.run()
    told_apart(mesh, "a"), told_apart(mesh, "b")
    mesh.start("j")
    mesh.run()
    assert told_apart(mesh, "j").reached == ["h"]


def test_who_is_in_the_realm_gives_way_though_word_of_it_came_from_outside_first() -> None:
    """It would be looked for there. Spec: tree_layer 5.4 (H15), 5.14."""
    wires = (("a", "x"), ("x", "b"), ("b", "h"), ("a", "c"), ("c", "b"))
    realms = dict.fromkeys("abch", "r1") | {"x": "r2"}
    mesh = World(wires, realms=realms, latency_ms=(5, 5))
    for one in ("ac", "cb"):
        mesh.wires[frozenset(one)].latency_ms = 200
    mesh.run()
    mesh.role("h", "r", is_exclusive=True, extent=Extent.REALM)
    mesh.run(for_ms=100)  # while a and c have not heard of it
    mesh.role("a", "r")
    mesh.run(for_ms=100)
    assert inside(mesh, "b").trees[PLACE.tree].roles["r"].everywhere.routes
    mesh.run()
    assert lost_by(mesh, "a")
    assert not inside(mesh, "b").trees[PLACE.tree].roles["r"].everywhere.routes
    for node in "abch":
        assert told_apart(mesh, node).reached == ["h"]


@pytest.mark.parametrize("seed", range(30))
def test_random_meshes_whose_realms_hold_roles_break_no_rule(seed: int) -> None:
    """Every sender reaches whom it should: see `wanted`."""
    random = Random(seed)
    names = [f"n{number}" for number in range(random.randint(3, 7))]
    wires = {
        tuple(sorted((name, random.choice(names[:at])))) for at, name in enumerate(names) if at
    }
    wires |= {tuple(sorted(random.sample(names, 2))) for _ in range(random.randint(0, 4))}
    realms = {name: random.choice(("r1", "r2")) for name in names}
    settings = Settings(ping_ms=0, copies_trees=bool(seed % 2))
    mesh = World(sorted(wires), seed=seed, realms=realms, settings=settings)
    mesh.run()
    for _ in range(random.randint(10, 25)):
        _trouble(random, mesh, names)
        mesh.run(for_ms=random.choice((None, random.randint(0, 120))))
        check_always(mesh)
    for name in names:
        if name not in mesh.nodes:
            mesh.start(name)
    mesh.run()
    check_rest(mesh)
    for node in names:
        told_apart(mesh, node)  # what is stale is found to be so
        told_apart(mesh, node, local_realm=True)
    for node in names:
        for is_local in (False, True):
            call = told_apart(mesh, node, local_realm=is_local)
            assert sorted(call.delivered) == wanted(mesh, node, is_local=is_local), node
            assert call.count(ReplyKind.NOT_FOUND) == (not call.delivered)


def _trouble(random: Random, mesh: World, names: list[str]) -> None:
    up = list(mesh.nodes)
    node = random.choice(up)
    wire = sorted(random.choice(sorted(mesh.wires, key=sorted)))
    kind = random.randrange(10)
    if kind < 2:
        mesh.role(node, "r", extent=random.choice(list(Extent)))
    elif kind < 4:
        extent = random.choice((Extent.CLOUD, Extent.REALM, Extent.REALM, Extent.NODE))
        mesh.role(node, "r", is_exclusive=True, extent=extent)
    elif kind < 5:
        mesh.unrole(node, "r")
    elif kind < 6:
        mesh.cut(*wire)
    elif kind < 8:
        mesh.heal(*wire)
    elif kind < 9:
        mesh.send(node, "r", one_instance=random.random() < 0.3)
    elif len(up) > 1 and random.random() < 0.3:
        mesh.crash(node)
    elif down := [one for one in names if one not in up]:
        mesh.start(random.choice(down))


def wanted(mesh: World, node: str, *, is_local: bool) -> list[tuple[str, InstanceId]]:
    """Return whom a node should reach: all that is known to it, or the highest that holds alone.

    Known are its own instances, those of its part of the realm, and those of its part of the mesh,
    as far as each is to be known.
    """
    part = next(part for part in mesh.parts() if node in part)
    realm = next(part for part in mesh.parts(realm=mesh.realms[node]) if node in part)
    near = {Extent.NODE: [node], Extent.REALM: realm, Extent.CLOUD: realm if is_local else part}
    known = [
        (one.is_exclusive, one.iid, name)
        for name in part
        for one in inside(mesh, name).instances(PLACE).values()
        if name in near[one.extent]
    ]
    alone = [one for one in known if one[0]]
    return sorted((name, iid) for _, iid, name in ([max(alone)] if alone else known))
