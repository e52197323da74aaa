"""Joins: rows, walks, legality and edits. Spec: DESIGN 3."""

from __future__ import annotations

import pytest

from mesh.core.edits import smallest_edit
from mesh.core.joins import row_of, row_over, rows_back
from mesh.core.legality import is_legal, judge
from mesh.core.local_links import local_links
from mesh.core.walks import walks_from
from mesh.model.joins import NO_JOINS, Join, JoinRow
from mesh.model.topology import DeclaredKafka, Link, Node, Topology, Zone, ZoneKind

A = Zone.full_mesh("A", ZoneKind.ONE_HOP, "abc", exclusive=True)
B = Zone.full_mesh("B", ZoneKind.ONE_HOP, "def", exclusive=True)
C = Zone.full_mesh("C", ZoneKind.ONE_HOP, "ghi", exclusive=True)


def join(name: str, source: str, target: str, hops: int = 10, filter_: str = ">") -> Zone:
    return Zone.of_join(Join(zone=name, source=source, target=target, hops=hops, filter=filter_))


def mesh(*zones: Zone) -> Topology:
    nodes = {node: None for zone in zones for node in zone.nodes}
    return Topology(
        name="um",
        kafka={"k": DeclaredKafka(name="k")},
        nodes={node: Node(name=node, kafka="k") for node in nodes},
        zones={zone.name: zone for zone in zones},
    )


def ways(topology: Topology, source: str) -> list[str]:
    found = walks_from(topology, source).values()
    return sorted(">".join(walk.nodes) for walks in found for walk in walks)


def row(*hops: int) -> JoinRow | None:
    found: JoinRow | None = NO_JOINS
    for one in hops:
        if found is not None:
            found = row_over(found, one)
    return found


def chain(hops: int, *, first: int | None = None) -> Topology:
    joins = [join(f"J{n}", f"ch{n}", f"ch{n + 1}", hops) for n in range(9)]
    if first is not None:
        joins[0] = join("J0", "ch0", "ch1", first)
    return mesh(*joins)


def test_a_row_has_at_most_one_join_more_than_any_of_it_says() -> None:
    """Spec: UM-10."""
    assert row(5, 5, 5, 5, 5, 5) == JoinRow(6, 5)
    assert row(5, 5, 5, 5, 5, 5, 5) is None
    assert row(1, 10) == row(10, 1) == JoinRow(2, 1)
    assert row(1, 10, 10) is row(10, 10, 1) is None


@pytest.mark.parametrize("first", [None, 5])
def test_five_hops_reach_the_sixth_channel_behind(first: int | None) -> None:
    """Spec: UM-10."""
    topology = chain(5 if first is None else 10, first=first)
    assert is_legal(topology)
    assert list(walks_from(topology, "ch0")) == [f"ch{n}" for n in range(1, 7)]
    assert list(walks_from(topology, "ch3")) == [f"ch{n}" for n in range(4, 10)]


def test_any_other_link_ends_a_row() -> None:
    """Spec: DESIGN 3 (joins in a row)."""
    between = Zone.of_links("Z", ZoneKind.MULTI_HOP, [("c", "d")])
    topology = mesh(join("J", "a", "b", 1), join("K", "b", "c", 1), between, join("L", "d", "e", 1))
    assert "a>b>c>d>e" in ways(topology, "a")


def test_example_1_has_exactly_its_walks() -> None:
    """Joins are one-way and a zone member forwards over its joins only. Spec: UM-2, UM-5, UM-6."""
    topology = mesh(A, B, join("DB", "d", "b"))
    assert is_legal(topology)
    assert ways(topology, "f") == ["f>d", "f>d>b", "f>d>b>a", "f>d>b>c", "f>e"]
    assert ways(topology, "a") == ["a>b", "a>c"]


def test_example_2_has_exactly_its_walks() -> None:
    """Spec: UM-3."""
    topology = mesh(A, B, C, join("GC", "g", "c"), join("GD", "g", "d"))
    assert is_legal(topology)
    assert ways(topology, "i") == [
        "i>g",
        "i>g>c",
        "i>g>c>a",
        "i>g>c>b",
        "i>g>d",
        "i>g>d>e",
        "i>g>d>f",
        "i>h",
    ]


def test_both_examples_together_are_refused_with_both_walks_and_an_edit() -> None:
    """Spec: UM-4, lab.md 3."""
    topology = mesh(A, B, C, join("DB", "d", "b"), join("GC", "g", "c"), join("GD", "g", "d"))
    (problem,) = judge(topology)
    assert problem.walks == (("g", "c", "b"), ("g", "d", "b"))
    assert problem.edit == ({"op": "remove", "link": ["b", "d"], "zone": "DB"},)


def test_two_joins_in_opposite_directions_are_one_link() -> None:
    """Nothing returns over it. Spec: UM-5, DESIGN 3."""
    topology = mesh(A, B, join("DB", "d", "b"), join("BD", "b", "d"))
    assert is_legal(topology)
    assert topology.links_of("b")[-1] == Link("BD", ("b", "d"))
    assert len(topology.links) == 7
    assert ways(topology, "b") == ["b>a", "b>c", "b>d", "b>d>e", "b>d>f"]
    (one,) = [link for link in local_links(topology, "d") if link.kind is ZoneKind.JOIN]
    assert (one.zone, one.zone_out, one.sends, one.takes) == ("BD", "DB", True, True)


def test_a_ring_of_joins_is_refused_with_the_walk_that_returns() -> None:
    """The way round in the other direction is none. Spec: UM-5, lab.md 3."""
    topology = mesh(join("AB", "a", "b"), join("BC", "b", "c"), join("CA", "c", "a"))
    problems = judge(topology)
    assert problems[0].walks == (("a", "b", "c", "a"), ("a",))
    assert "a reaches itself: a -AB-> b -BC-> c -CA-> a" in problems[0].message
    assert len(smallest_edit(topology)) == 1


def test_a_hop_limit_may_open_a_ring() -> None:
    """Hop limits count for legality. Spec: DESIGN 3, UM-10."""
    ring = [("AB", "a", "b"), ("BC", "b", "c"), ("CA", "c", "a")]
    assert is_legal(mesh(*(join(*one, 1) for one in ring)))
    assert is_legal(mesh(join(*ring[0], 1), *(join(*one) for one in ring[1:])))
    assert not is_legal(mesh(*(join(*one, 2) for one in ring)))


def test_filters_do_not_count_for_legality() -> None:
    """Spec: DESIGN 3."""
    topology = mesh(
        join("AB", "a", "b", filter_="x"),
        join("BD", "b", "d", filter_="x"),
        join("AC", "a", "c", filter_="y"),
        join("CD", "c", "d", filter_="y"),
    )
    assert not is_legal(topology)


def test_a_row_is_known_again_from_the_header() -> None:
    """The count travels, the limits stand in the topology. Spec: K10, UM-10."""
    joins = mesh(join("AB", "a", "b", 3), join("BC", "b", "c")).joins
    assert row_of(joins, ("z", "a", "b", "c"), 2) == JoinRow(2, 3)
    assert row_of(joins, ("z", "a", "b", "c"), 1) == JoinRow(1, 10)
    assert row_of(joins, ("z", "a"), 0) == NO_JOINS
    assert row_of({}, ("a", "b"), 1) == JoinRow(1, 64)


def test_a_count_that_no_row_comes_to_makes_no_row_of_its_own() -> None:
    """What is remembered by how messages came would have no end. Spec: DESIGN 4.6."""
    made_up = {row_of({}, ("a", "b"), count) for count in range(65, 10_000)}
    assert made_up == {JoinRow(65, 64)}
    assert row_over(JoinRow(65, 64), 64) is None
    assert row_of({}, ("a", "b"), -3) == NO_JOINS


def test_addresses_come_back_by_the_rows_that_messages_take() -> None:
    """Spec: K22, K26."""
    topology = chain(2)
    assert rows_back(topology.joins, topology.joins["ch0", "ch1"]) == [
        JoinRow(1, 2),
        JoinRow(2, 2),
        JoinRow(3, 2),
    ]
    assert rows_back(topology.joins, topology.joins["ch8", "ch9"]) == [JoinRow(1, 2)]


def test_a_join_is_never_moved() -> None:
    """It would be a link both ways, with interest. Spec: lab.md 3."""
    topology = mesh(
        Zone.of_links("M", ZoneKind.MULTI_HOP, [("a", "b"), ("b", "c")]),
        Zone.of_links("N", ZoneKind.ONE_HOP, []),
        join("J", "a", "c"),
    )
    for edit in smallest_edit(topology):
        assert not (edit.link.zone == "J" and edit.operation == "move")
