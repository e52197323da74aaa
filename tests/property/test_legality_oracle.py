"""Walks, verdicts and edits against a second implementation that was written to be read.

It shares no code with the mesh: EMS-0 word for word, with plain tuples and lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st

from mesh.core.edits import smallest_edit
from mesh.core.legality import conflicts, is_legal
from mesh.core.walks import walks_from
from mesh.model.joins import Join
from mesh.model.topology import DeclaredKafka, Node, Topology, Zone, ZoneKind
from tests.property.effort import examples

Routes = list[tuple[str, str, str]]
"""(zone, one end, other end); of a join source and target."""

Kinds = dict[str, str]
"""Zone -> kind; a join is `join 3`, with its hops."""

Way = tuple[str, ...]


def naive_ways(kinds: Kinds, routes: Routes, source: str) -> Iterator[Way]:
    """Every walk from a source, ended at the first repeated node. Spec: EMS-0, DMR-13."""
    pending: list[tuple[Way, int, str, int, int, list[int]]] = [((source,), -1, "", 0, 0, [])]
    while pending:
        way, used, zone, hops, external, row = pending.pop()
        for number, (route_zone, a, b) in enumerate(routes):
            if number == used or way[-1] not in (a, b):
                continue
            kind = kinds[route_zone]
            if kind.startswith("join"):
                came = routes[used] if used >= 0 else ("", "", "")
                if kinds.get(came[0], "").startswith("join") and {*came[1:]} == {a, b}:
                    continue
                new_row = [*row, int(kind.removeprefix("join "))]
                if way[-1] != a or any(len(new_row) > one + 1 for one in new_row):
                    continue
                yield (*way, b)
                if b not in way:
                    pending.append(((*way, b), number, route_zone, 1, external, new_row))
                continue
            new_hops = hops + 1 if route_zone == zone else 1
            new_external = external + (kind == "external")
            if kind in ("one-hop", "cluster") and new_hops > 1:
                continue
            if kind == "external" and new_external > 1:
                continue
            target = b if way[-1] == a else a
            yield (*way, target)
            if target not in way:
                pending.append(((*way, target), number, route_zone, new_hops, new_external, []))


def naive_legal(nodes: str, kinds: Kinds, routes: Routes) -> bool:
    """No source reaches any node by two walks, or itself by one. Spec: DESIGN 3."""
    for source in nodes:
        ends: list[str] = [source]
        for way in naive_ways(kinds, routes, source):
            if way[-1] in ends:
                return False
            ends.append(way[-1])
    return True


Operation = tuple[str, tuple[str, str], str, str]
"""(op, ends, zone named in the edit, zone the link is in)."""


def naive_edit(nodes: str, kinds: Kinds, routes: Routes, size: int) -> list[Operation] | None:
    """The best of all edits of one size, by trying all. Spec: lab.md 3."""
    choices: dict[int, list[Operation]] = {}
    for number, (zone, a, b) in enumerate(routes):
        if kinds[zone] == "cluster":
            continue
        ends = (min(a, b), max(a, b))
        choices[number] = [("remove", ends, zone, zone)]
        for other, kind in kinds.items():
            is_fixed = kinds[zone].startswith("join") or kind.startswith("join")
            if kind != "cluster" and other != zone and not is_fixed:
                choices[number].append(("move", ends, other, zone))
    best: tuple[object, list[Operation]] | None = None
    for numbers in combinations(choices, size):
        for chosen in product(*(choices[number] for number in numbers)):
            left = [route for number, route in enumerate(routes) if number not in numbers]
            left += [(zone, *ends) for op, ends, zone, _ in chosen if op == "move"]
            if len(left) != len(dict.fromkeys(left)) or not naive_legal(nodes, kinds, left):
                continue
            ordered = sorted(chosen, key=lambda one: (one[0] == "remove", *one[1:]))
            removals = sum(one[0] == "remove" for one in ordered)
            key = (removals, [(one[0] == "remove", *one[1:]) for one in ordered])
            if best is None or key < best[0]:  # type: ignore[operator]
                best = (key, ordered)
    return best[1] if best else None


@st.composite
def meshes(
    draw: st.DrawFn, nodes_max: int = 6, zones_max: int = 4, routes_max: int = 8
) -> tuple[str, Kinds, Routes]:
    """Draw nodes, zone kinds and routes; a cluster is full, and no node is in two."""
    nodes = "abcdef"[: draw(st.integers(2, nodes_max))]
    pairs = list(combinations(nodes, 2))
    free = list(nodes)
    kinds: Kinds = {}
    routes: Routes = []
    for name in "WXYZ"[: draw(st.integers(1, zones_max))]:
        kind = draw(st.sampled_from(["one-hop", "one-hop", "multi-hop", "external", "cluster"]))
        kinds[name] = kind
        if kind == "cluster":
            members = draw(st.lists(st.sampled_from(nodes), max_size=3, unique=True))
            chosen = list(combinations(sorted(m for m in members if m in free), 2))
            free = [node for node in free if node not in members]
        else:
            chosen = draw(st.lists(st.sampled_from(pairs), max_size=routes_max, unique=True))
        routes += [(name, *pair) for pair in chosen if len(routes) < 12]
    return nodes, kinds, routes


@st.composite
def joined_meshes(
    draw: st.DrawFn, nodes_max: int = 5, zones_max: int = 2, routes_max: int = 3
) -> tuple[str, Kinds, Routes]:
    """Draw a mesh with joins besides, no two in the same direction."""
    nodes, kinds, routes = draw(meshes(nodes_max, zones_max, routes_max))
    pairs = [(a, b) for a in nodes for b in nodes if a != b]
    for index, pair in enumerate(draw(st.lists(st.sampled_from(pairs), max_size=5, unique=True))):
        kinds[f"J{index}"] = f"join {draw(st.sampled_from([1, 1, 2, 3, 10]))}"
        routes.append((f"J{index}", *pair))
    return nodes, kinds, routes


def topology_of(nodes: str, kinds: Kinds, routes: Routes) -> Topology:
    """The same mesh as the project's value."""
    zones = {
        name: Zone.of_links(name, ZoneKind(kind), [(a, b) for zone, a, b in routes if zone == name])
        for name, kind in kinds.items()
        if not kind.startswith("join")
    }
    for name, a, b in routes:
        if kinds[name].startswith("join"):
            hops = int(kinds[name].removeprefix("join "))
            zones[name] = Zone.of_join(Join(zone=name, source=a, target=b, hops=hops))
    return Topology(
        name="random",
        kafka={"k": DeclaredKafka(name="k")},
        nodes={node: Node(name=node, kafka="k") for node in nodes},
        zones=zones,
    )


@examples(400)
@given(st.one_of(meshes(routes_max=5), joined_meshes()))
def test_walks_and_verdict_agree_with_the_oracle(drawn: tuple[str, Kinds, Routes]) -> None:
    """Same walks from every source, same verdict. Spec: EMS-0, DESIGN 3, UM-4, UM-10."""
    nodes, kinds, routes = drawn
    topology = topology_of(*drawn)
    assert is_legal(topology) is naive_legal(nodes, kinds, routes)
    for source in nodes:
        mine = [walk.nodes for walks in walks_from(topology, source).values() for walk in walks]
        assert sorted(mine) == sorted(naive_ways(kinds, routes, source))


@examples(250)
@given(st.one_of(meshes(routes_max=5), joined_meshes()))
def test_conflicts_are_two_real_walks(drawn: tuple[str, Kinds, Routes]) -> None:
    """What a refusal shows is what a message could do. Spec: DESIGN 3."""
    nodes, kinds, routes = drawn
    found = conflicts(topology_of(*drawn))
    assert bool(found) is not naive_legal(nodes, kinds, routes)
    for conflict in found:
        first, second = conflict.walks
        assert first.links != second.links
        ways = list(naive_ways(kinds, routes, conflict.source))
        for walk in conflict.walks:
            # Where a join allows but one way round, the other walk is to be there from the start.
            assert walk.nodes in ways or walk.nodes == (conflict.node,) == (conflict.source,)
            assert walk.nodes[-1] == conflict.node
            assert len(dict.fromkeys(walk.nodes[:-1])) == len(walk.links)


@examples(250)
@given(
    st.one_of(
        meshes(nodes_max=4, zones_max=3, routes_max=4),
        joined_meshes(nodes_max=4, zones_max=2, routes_max=2),
    )
)
def test_no_smaller_or_better_edit_exists(drawn: tuple[str, Kinds, Routes]) -> None:
    """The edit equals the best of all edits of its size, and none is smaller. Spec: lab.md 3."""
    nodes, kinds, routes = drawn
    routes = routes[:6]
    found = [
        (str(edit.operation), edit.link.ends, edit.zone, edit.link.zone)
        for edit in smallest_edit(topology_of(nodes, kinds, routes))
    ]
    for size in range(min(len(found), 3)):
        assert naive_edit(nodes, kinds, routes, size) is None
    if len(found) <= 2:
        assert naive_edit(nodes, kinds, routes, len(found)) == found
