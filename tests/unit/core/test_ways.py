"""The one way between two nodes, or where it ends and why."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mesh.core.walks import Walk
from mesh.core.ways import DeadEnd, crossings, dead_ends, way_between
from mesh.model.topology import Topology

MeshOf = Callable[..., Topology]


def test_hops_restart_with_the_zone(mesh_of: MeshOf) -> None:
    """Spec: EMS-5."""
    topology = mesh_of("T one-hop a b", "W multi-hop b-c c-d")
    walk = way_between(topology, "a", "d")
    assert isinstance(walk, Walk)
    assert [(one.source, one.zone, one.kind, one.hops) for one in crossings(topology, walk)] == [
        ("a", "T", "one-hop", 1),
        ("b", "W", "multi-hop", 1),
        ("c", "W", "multi-hop", 2),
    ]


@pytest.mark.parametrize(
    ("zones", "source", "target", "path", "link", "reason"),
    [
        (["Z one-hop a-b b-c c-d"], "a", "d", "ab", "b-c (Z)", "arrival_zone"),
        (
            ["A cluster a1 a2", "B cluster b1 b2", "C cluster c1 c2", "X external a2-b1 b1-c1"],
            "a1", "c2", ["a1", "a2", "b1"], "b1-c1 (X)", "no_transit",
        ),
        (["Z one-hop a b", "Y multi-hop c-d"], "a", "d", "a", None, "not_linked"),
        # b and e are equally near to the end: the one reached first tells.
        (["Z one-hop a-b b-c a-e e-f", "W multi-hop c-d", "V multi-hop f-d"], "a", "d", "ab", "b-c (Z)", "arrival_zone"),
    ],
)  # fmt: skip
def test_where_a_way_ends_and_why(
    mesh_of: MeshOf,
    zones: list[str],
    source: str,
    target: str,
    path: str,
    link: str | None,
    reason: str,
) -> None:
    """Spec: DESIGN 4.4."""
    topology = mesh_of(*zones)
    end = way_between(topology, source, target)
    assert isinstance(end, DeadEnd)
    assert (list(end.walk.nodes), end.reason) == (list(path), reason)
    assert (None if end.link is None else str(end.link)) == link
    assert dead_ends(topology, source)[target] == end
