"""Verdicts on the figures of the source systems, and the edits proposed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import combinations
from types import FrameType

import pytest

from mesh.core.edits import smallest_edit
from mesh.core.legality import conflicts, is_legal, judge
from mesh.model.topology import Topology

MeshOf = Callable[..., Topology]

CITIES = ("TK one-hop tk1 tk2 tk3", "NY one-hop ny1 ny2 ny3", "PA one-hop pa1 pa2 pa3")
CHAIN = "WO multi-hop tk1-ny1 ny1-pa1"
TK_LINKS = "TK one-hop tk1-tk2 tk1-tk3 tk2-tk3"
NY_LINKS = "NY one-hop ny1-ny2 ny1-ny3 ny2-ny3"
CLUSTERS = ("A cluster a1 a2", "B cluster b1 b2")

VERDICTS = [
    ("EMS-1", True, ["Z1 multi-hop a-b b-c b-d d-e"]),
    ("EMS-2", True, ["Z1 one-hop a-b b-c b-d d-e"]),
    ("EMS-3 one-hop", True, ["Z2 one-hop b1-m b1-r b2-m b2-r"]),
    ("EMS-3 multi-hop, three routes", True, ["Z2 multi-hop b1-m b1-r b2-m"]),
    ("EMS-3 multi-hop, the fourth", False, ["Z2 multi-hop b1-m b1-r b2-m b2-r"]),
    ("EMS-4", True, [*CITIES, CHAIN]),
    ("EMS-5 one-hop chain", True, [*CITIES, "WO one-hop tk1-ny1 ny1-pa1"]),
    ("EMS-5 one-hop, third route", True, [*CITIES, "WO one-hop tk1-ny1 ny1-pa1 tk1-pa1"]),
    ("EMS-5 multi-hop, third route", False, [*CITIES, "WO multi-hop tk1-ny1 ny1-pa1 tk1-pa1"]),
    ("EMS-6 in TK", False, [TK_LINKS + " tk3-ny1", *CITIES[1:], CHAIN]),
    ("EMS-6 in NY", False, [CITIES[0], NY_LINKS + " tk3-ny1", CITIES[2], CHAIN]),
    ("EMS-6 in WO", False, [*CITIES, CHAIN + " tk3-ny1"]),
    ("EMS-6 in a new one-hop zone", False, [*CITIES, CHAIN, "N one-hop tk3-ny1"]),
    ("EMS-6 in a new multi-hop zone", False, [*CITIES, CHAIN, "N multi-hop tk3-ny1"]),
    ("EMS-7 star", True, ["Z multi-hop a-b a-c a-d"]),
    ("EMS-7 star and b-d, multi-hop", False, ["Z multi-hop a-b a-c a-d b-d"]),
    ("EMS-7 star and b-d, one-hop", True, ["Z one-hop a-b a-c a-d b-d"]),
    ("EMS-8 a-d in Z1", True, ["Z1 one-hop a-b b-c a-d", "Z2 one-hop d-e d-f f-g"]),
    ("EMS-8 a-d in Z3", True, ["Z1 one-hop a-b b-c", "Z2 one-hop d-e d-f f-g", "Z3 one-hop a-d"]),
    ("EMS-8 c under a", True, ["Z1 one-hop a-b a-c a-d", "Z2 one-hop d-e d-f f-g"]),
    ("EMS-8 g-a in Z1", False, ["Z1 one-hop a-b b-c a-d a-g", "Z2 one-hop d-e d-f f-g"]),
    ("EMS-8 g-a in Z2", False, ["Z1 one-hop a-b b-c a-d", "Z2 one-hop d-e d-f f-g a-g"]),
    (
        "EMS-8 g-a in Z3",
        False,
        ["Z1 one-hop a-b b-c a-d", "Z2 one-hop d-e d-f f-g", "Z3 one-hop a-g"],
    ),
    ("EMS-8 both in Z2", True, ["Z1 one-hop a-b b-c", "Z2 one-hop d-e d-f f-g a-d a-g"]),
    ("EMS-9 triangle, one-hop", True, ["Z one-hop a-b b-c a-c"]),
    ("EMS-9 triangle, multi-hop", False, ["Z multi-hop a-b b-c a-c"]),
    ("EMS-9 triangle, two one-hop zones", False, ["Z1 one-hop a-b a-c", "Z2 one-hop b-c"]),
    ("EMS-9 ring of three zones", False, ["Z1 one-hop a-b", "Z2 one-hop b-c", "Z3 one-hop a-c"]),
    ("EMS-9 parallel routes", False, ["Z1 one-hop a-b", "Z2 one-hop a-b"]),
    ("EMS-9 parallel routes, multi-hop", False, ["Z1 multi-hop a-b", "Z2 one-hop a-b"]),
    ("EMS-10 multi-hop", False, ["Z multi-hop q-s q-r r-t s-t"]),
    ("EMS-10 one-hop", True, ["Z one-hop q-s q-r r-t s-t"]),
    ("UM-2 without the join", True, ["A one-hop a b c", "B one-hop d e f"]),
    (
        "DMR-3",
        True,
        [*CLUSTERS, "C cluster c1", "D cluster d1", "X external a1-b1 a1-c1 b1-d1 c1-d1"],
    ),
    (
        "DMR-3 with two gateways per cluster",
        True,
        [
            "A cluster a1 a2 a3",
            "B cluster b1 b2",
            "C cluster c1 c2",
            "D cluster d1 d2",
            "X external a1-b1 a2-c1 b2-d1 c2-d2",
        ],
    ),
    (
        "DMR-4",
        True,
        ["A cluster a1 a2 a3", "B cluster b1 b2", "C cluster c1", "X external a1-b1 a1-c1"],
    ),
    ("DMR-5 second external link", False, [*CLUSTERS, "X external a1-b1 a2-b2"]),
    ("DMR-5 second external link, one gateway", False, [*CLUSTERS, "X external a1-b1 a1-b2"]),
    (
        "DMR-5 second external link, other zone",
        False,
        [*CLUSTERS, "X external a1-b1", "Y external a2-b2"],
    ),
    ("DMR-5 second link of a pair", False, [*CLUSTERS, "X external a1-b1", "M multi-hop a1-b1"]),
    (
        "DMR-13 external triangle",
        True,
        ["A cluster a", "B cluster b", "C cluster c", "X external a-b b-c a-c"],
    ),
    (
        "DMR-13 the same as one-hop zones",
        False,
        ["X one-hop a-b", "Y one-hop b-c", "Z one-hop a-c"],
    ),
]


@pytest.mark.parametrize(
    ("legal", "zones"), [v[1:] for v in VERDICTS], ids=[v[0].replace(" ", "_") for v in VERDICTS]
)
def test_verdict(mesh_of: MeshOf, *, legal: bool, zones: list[str]) -> None:
    """The verdict of each scenario, and that the edit for an illegal one is legal.

    Spec: EMS-0, EMS-1, EMS-2, EMS-3, EMS-4, EMS-5, EMS-6, EMS-7, EMS-8, EMS-9, EMS-10, DMR-3,
    DMR-4, DMR-5, DMR-13.
    """
    topology = mesh_of(*zones)
    assert is_legal(topology) is legal
    problems = judge(topology)
    assert (not problems) is legal
    for problem in problems:
        first, second = problem.walks
        assert first[0] == second[0]
        assert first[-1] == second[-1]
        assert problem.edit


def test_problem_names_walks_edit_and_zone(mesh_of: MeshOf) -> None:
    """One line with both walks and the edit, the same as data. Spec: DESIGN 3, lab.md 3."""
    (problem,) = judge(mesh_of("Z multi-hop a-b b-c a-c"))
    assert problem.line() == (
        "spec.zones.Z: a reaches c by two walks: a -Z-> c and a -Z-> b -Z-> c; "
        "remove link a-b from zone Z [TWO_WALKS]"
    )
    assert problem.as_mapping() == {
        "code": "TWO_WALKS",
        "message": problem.message,
        "where": "spec.zones.Z",
        "walks": [["a", "c"], ["a", "b", "c"]],
        "edit": [{"op": "remove", "link": ["a", "b"], "zone": "Z"}],
    }


def test_each_loop_is_one_problem(mesh_of: MeshOf) -> None:
    """Two loops apart are two problems with one edit for both."""
    problems = judge(mesh_of("Y multi-hop a-b b-c a-c", "Z multi-hop d-e e-f d-f"))
    assert [problem.where for problem in problems] == ["spec.zones.Y", "spec.zones.Z"]
    assert len({str(problem.edit) for problem in problems}) == 1
    assert len(problems[0].edit) == 2
    assert len(judge(mesh_of("B multi-hop r-s s-a", "Z multi-hop a-b b-c a-c"))) == 1


def test_walk_ends_at_the_first_repeated_node(mesh_of: MeshOf) -> None:
    """A loop behind a bridge is shown from the node that enters it. Spec: lab.md 3."""
    for conflict in conflicts(mesh_of("B multi-hop s-a", "Z multi-hop a-b b-c a-c")):
        for walk in conflict.walks:
            assert len(dict.fromkeys(walk.nodes)) >= len(walk.nodes) - 1


def edits(topology: Topology) -> list[tuple[str, str, str]]:
    """The proposed edit as (op, link, zone)."""
    return [(str(e.operation), "-".join(e.link.ends), e.zone) for e in smallest_edit(topology)]


def test_edit_moves_before_it_removes(mesh_of: MeshOf) -> None:
    """With g-a in Z1, a move of one link is enough. Spec: EMS-8, lab.md 3."""
    topology = mesh_of("Z1 one-hop a-b b-c", "Z2 one-hop d-e d-f f-g a-d", "Z3 one-hop a-g")
    assert edits(topology) == [("move", "a-g", "Z2")]


def test_edit_closes_a_split_triangle(mesh_of: MeshOf) -> None:
    """Three links of a triangle belong in one one-hop zone. Spec: EMS-9."""
    topology = mesh_of("Z1 one-hop a-b a-c", "Z2 one-hop b-c")
    assert edits(topology) == [("move", "b-c", "Z1")]


def test_edit_prefers_more_moves_to_an_earlier_name(mesh_of: MeshOf) -> None:
    """Two moves are better than a move and a removal that comes first by name. Spec: lab.md 3."""
    topology = mesh_of("W external b-d c-d", "X one-hop a-b a-d b-c")
    assert edits(topology) == [("move", "b-d", "X"), ("move", "c-d", "X")]


def test_edit_may_use_a_zone_elsewhere(mesh_of: MeshOf) -> None:
    """The zone a link is moved to need not touch it: the first that helps by name is taken."""
    elsewhere = ("D one-hop s-t", "E external u-v", "F external u-w")
    topology = mesh_of(*elsewhere, "P external a-b", "Q external b-c", "M multi-hop a-c")
    assert edits(topology) == [("move", "a-c", "E")]


def test_edit_leaves_clusters_alone(mesh_of: MeshOf) -> None:
    """A mesh cluster is fully linked, so only the external link can go. Spec: DMR-5."""
    assert edits(mesh_of(*CLUSTERS, "X external a1-b1 a2-b2")) == [("remove", "a1-b1", "X")]


def test_edit_may_take_a_link_out_of_a_full_mesh(mesh_of: MeshOf) -> None:
    """A `nodes:` zone of kind one-hop becomes one of explicit links."""
    assert edits(mesh_of("T one-hop a b", "U multi-hop a-b b-c")) == [("remove", "a-b", "T")]


def test_edit_of_a_large_topology_cannot_be_shortened(mesh_of: MeshOf) -> None:
    """Where the exact search would take too long, no removal is superfluous."""
    zones = ["Z multi-hop " + " ".join(f"{a}-{b}" for a, b in combinations("abcdefghij", 2))]
    found = smallest_edit(mesh_of(*zones))
    assert len(found) == 45 - 9


def test_large_legal_topology_is_quick(mesh_of: MeshOf) -> None:
    """A hundred nodes in ten cities and a chain around the world."""
    cities = [f"Z{i} one-hop " + " ".join(f"n{i}x{j}" for j in range(10)) for i in range(10)]
    chain = "W multi-hop " + " ".join(f"n{i}x0-n{i + 1}x0" for i in range(9))
    mesh = mesh_of(*cities, chain)
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        assert is_legal(mesh)
    finally:
        sys.setprofile(None)
    assert calls < 100_000  # 48,000; each pair of nodes by itself takes millions


@pytest.mark.parametrize(
    ("before", "after", "advice"),
    [
        (
            ["Z multi-hop a-b a-c a-d"],
            ["Z multi-hop a-b a-c a-d b-d"],
            "remove the new link b-d from zone Z",
        ),
        (
            [*CITIES, CHAIN],
            [*CITIES, CHAIN + " tk3-ny1"],
            "remove the new link ny1-tk3 from zone WO",
        ),
        (["Z multi-hop a-b"], ["Z multi-hop a-b b-c a-c"], "remove the new link a-c from zone Z"),
    ],
)
def test_what_a_change_adds_is_rather_to_go_than_what_was_there(
    before: list[str], after: list[str], advice: str, mesh_of: MeshOf
) -> None:
    """A new star's ray, a short cut past a backbone. Without a before the first by name goes."""
    proposed = mesh_of(*after)
    [problem, *_] = judge(proposed, None, mesh_of(*before))
    assert problem.message.endswith(f"; {advice}")
    assert "new" not in judge(proposed)[0].message
