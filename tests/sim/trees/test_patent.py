"""The profile PATENT: the source's own rules beside HARD, with what each costs.

Spec: PAT-1, PAT-2, PAT-3; tree_layer 5.2, 5.8, 5.12, 13.
"""

from __future__ import annotations

import pytest

from mesh.model.tree_frames import BreakReason, ReplyKind, RouteBreak
from mesh.model.trees import Extent, InstanceId
from mesh.trees.installing import install
from mesh.trees.settings import Profile, Settings
from tests.sim.trees.rules import inside
from tests.sim.trees.scenes import LONG, SQUARE
from tests.sim.trees.world import Call, World, address

PATENT = Settings(ping_ms=0, profile=Profile.PATENT)
HARD = Settings(ping_ms=0)
GRID = tuple(
    (f"{x}{y}", other)
    for x in range(4)
    for y in range(4)
    for other in (f"{x + 1}{y}", f"{x}{y + 1}")
    if other[0] < "4" and other[1] < "4"
)


def ask(mesh: World, node: str, role: str = "r") -> Call:
    """Send, and wait until all is quiet."""
    call = mesh.send(node, role)
    mesh.run()
    assert sum(one.is_last for one in call.answers) == 1
    return call


def settled(wires: tuple[tuple[str, str], ...], settings: Settings, hosts: str) -> World:
    """Return a mesh in which everybody is sure of one role, published one host after another."""
    mesh = World(wires, settings=settings)
    mesh.run()
    for number, host in enumerate(hosts.split()):
        mesh.role(host, "r")
        mesh.run()
        if not number:
            for node in list(mesh.nodes):
                ask(mesh, node)
    return mesh


def known(mesh: World, node: str) -> int:
    """Return how many instances a node has routes to."""
    return len(inside(mesh, node).trees[address("t", "r").tree].roles["r"].everywhere.routes)


def test_three_instances_behind_one_edge_are_one_route_and_all_get_it_once() -> None:
    """Spec: PAT-2: each knows the next; in HARD everybody knows all."""
    mesh = settled(LONG, PATENT, "b c d")
    assert known(mesh, "a") == 1
    assert ask(mesh, "a").reached == ["b", "c", "d"]
    assert known(settled(LONG, HARD, "b c d"), "a") == 3


def test_a_publish_of_those_who_are_sure_goes_where_routes_go() -> None:
    """Spec: PAT-1, rules 2 to 5: fewer frames; rules 1 and 6 alone reach everybody too."""
    published = {}
    for settings in (PATENT, HARD):
        mesh = settled(GRID, settings, "00")
        before = mesh.frames["Publish"]
        mesh.role("11", "r")
        mesh.run()
        published[settings.profile] = mesh.frames["Publish"] - before
        assert ask(mesh, "33").reached == ["00", "11"]
    assert published[Profile.HARD] == 2 * len(GRID) - 15  # once over each link, both ways but back
    assert published[Profile.PATENT] <= 2


def test_where_nobody_is_sure_a_publish_goes_everywhere_for_some_hops() -> None:
    """Spec: PAT-1, rules 3 and 6."""
    mesh = World(LONG, settings=PATENT)
    mesh.run()
    mesh.log = []
    mesh.role("a", "r")
    mesh.run()
    said = [(x, y, frame.body.spew) for _, x, y, frame in mesh.log if hasattr(frame.body, "spew")]
    assert said == [("a", "b", 3), ("b", "c", 3), ("c", "d", 3)]


def test_a_pruned_publish_dies_where_the_way_onward_was_lost() -> None:
    """Spec: tree_layer 9 (C1), 11 (11): PATENT misses an instance, HARD does not."""
    reached = {}
    for profile in Profile:
        settings = Settings(ping_ms=0, profile=profile, copies_trees=False)
        mesh = World((("0", "1"), ("1", "2"), ("0", "2")), settings=settings)
        mesh.run()
        mesh.role("2", "r")
        mesh.run()
        mesh.cut("0", "2")
        mesh.run()
        ask(mesh, "0"), ask(mesh, "2")
        mesh.heal("0", "2")
        mesh.run()
        mesh.cut("1", "2")
        mesh.run()
        mesh.role("0", "r")
        mesh.run()
        reached[settings.profile] = ask(mesh, "2").reached
    assert reached[Profile.HARD] == ["0", "2"]
    assert reached[Profile.PATENT] == ["2"]


@pytest.mark.parametrize("settings", [PATENT, HARD], ids=lambda one: str(one.profile))
def test_a_message_that_comes_twice_breaks_the_cycle_and_nobody_is_told(settings: Settings) -> None:
    """Spec: PAT-3: no null at the sender, and later messages take no cycle. HARD keeps its tables."""
    mesh = World((*SQUARE, ("c", "x")), settings=settings, latency_ms=(10, 10))
    mesh.run()
    mesh.role("x", "r")
    mesh.run()
    for node in "abcdx":
        ask(mesh, node)
    _send_both_ways(mesh)
    mesh.log = []
    first = ask(mesh, "a")
    assert first.reached == ["x"]
    assert not first.count(ReplyKind.NULL)
    breaks = [f.body for _, _, _, f in mesh.log if isinstance(f.body, RouteBreak)]
    assert [one.reason for one in breaks] == (
        [BreakReason.CYCLE] * len(breaks) if settings is PATENT else []
    )
    assert bool(breaks) == (settings is PATENT)
    ask(mesh, "a")  # the other one of the two cycles: a has two routes to one instance
    mesh.log = []
    assert ask(mesh, "a").reached == ["x"]
    copies = [
        frame
        for _, _, _, frame in mesh.log
        if getattr(frame.body, "kind", None) is ReplyKind.DUPLICATE
    ]
    assert bool(copies) == (settings is HARD)


def _send_both_ways(mesh: World) -> None:
    """Have a know a second instance of x, over its other neighbour: its routes go round."""
    table = inside(mesh, "a").trees[address("t", "r").tree].roles["r"].everywhere
    [(iid, route)] = table.routes.items()
    other = "d" if route.link == "b" else "b"
    node = inside(mesh, "a")
    node.outputs = []
    copy = route._replace(link=other)
    install(node, address("t", "r"), Extent.CLOUD, InstanceId(iid + 1), copy)
    for output in node.outputs:
        mesh._perform("a", output)
    mesh.run()


def test_both_profiles_take_the_same_lives_and_the_frames_of_both_are_told() -> None:
    """A quiet mesh is served by both; PATENT with fewer frames. Spec: tree_layer 13."""
    frames = {}
    for settings in (PATENT, HARD):
        mesh = settled(GRID, settings, "00 03 30 33")
        for node in ("11", "22", "02"):
            assert ask(mesh, node).reached == ["00", "03", "30", "33"]
        frames[settings.profile] = mesh.frames.total()
    assert frames[Profile.PATENT] < frames[Profile.HARD]
