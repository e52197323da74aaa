"""Nodes whose topology files differ: whatever the order, the same link of a loop is refused."""

from __future__ import annotations

import itertools

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.model.topology import Topology
from tests.sim.apart import ApartMesh


def links(kind: str, *pairs: str) -> dict[str, object]:
    """Pairs of one-letter names, or of names with a dash between."""
    ends = [pair.split("-") if "-" in pair else list(pair) for pair in pairs]
    return {"kind": kind, "links": ends}


def multi_hop(*pairs: str) -> dict[str, object]:
    return links("multi-hop", *pairs)


def one_hop(*pairs: str) -> dict[str, object]:
    return links("one-hop", *pairs)


def file(nodes: str, **zones: object) -> Topology:
    declared = {name: {"kafka": f"k{name}"} for name in nodes}
    kafka = {f"k{name}": {} for name in nodes}
    return topology_from_mapping({"kafka": kafka, "nodes": declared, "zones": zones})


def ring(nodes: str) -> dict[str, Topology]:
    """Each node knows its own two links alone."""
    return {
        node: file(nodes, Z=multi_hop(nodes[i - 1] + node, node + nodes[(i + 1) % len(nodes)]))
        for i, node in enumerate(nodes)
    }


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
@pytest.mark.parametrize("gap_ms", [0, 3_000])
def test_a_ring_that_nobodys_file_shows(order: tuple[str, ...], gap_ms: int) -> None:
    """Order of start does not matter; both ends show both walks. Spec: K26, K27, EMS-9."""
    mesh = ApartMesh(ring("abc"), seed=1)
    mesh.start(*order, gap_ms=gap_ms)
    mesh.settle()
    assert mesh.refused() == {frozenset("bc")}
    assert mesh.reason("b", "c") == (
        "refused: a would reach c by two walks: a -Z-> c and a -Z-> b -Z-> c; "
        "b-c (Z) is the newest link of it: remove it, or another"
    )
    mesh.assert_settled()


def join(source: str, target: str, **more: object) -> dict[str, object]:
    return {"kind": "join", "from": source, "to": target, **more}


LOOPS = {
    "square": (ring("abcd"), {frozenset("cd")}),
    "one-hop zone closed by another": (
        {
            "a": file("abc", Z=one_hop("ab", "ac")),
            "b": file("abc", Z=one_hop("ab"), Y=multi_hop("bc")),
            "c": file("abc", Z=one_hop("ac"), Y=multi_hop("bc")),
        },
        {frozenset("ac")},
    ),
    "a ring of joins": (
        {
            "a": file("abc", J1=join("a", "b"), J3=join("c", "a")),
            "b": file("abc", J1=join("a", "b"), J2=join("b", "c")),
            "c": file("abc", J2=join("b", "c"), J3=join("c", "a")),
        },
        {frozenset("ac")},
    ),
    "a join beside a link": (
        {
            "a": file("abc", Z=multi_hop("ab"), J=join("a", "c")),
            "b": file("abc", Z=multi_hop("ab", "bc")),
            "c": file("abc", Z=multi_hop("bc"), J=join("a", "c")),
        },
        {frozenset("bc")},
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_of_all_kinds(name: str) -> None:
    """Spec: K26, K27, EMS-9, UM-10."""
    files, wanted = LOOPS[name]
    mesh = ApartMesh(dict(files), seed=2)
    mesh.start(*mesh.rng.sample(sorted(files), len(files)), gap_ms=mesh.rng.choice([0, 2_000]))
    mesh.settle()
    assert mesh.refused() == wanted
    mesh.assert_settled()


def cities(**zones: object) -> Topology:
    names = ["tk1", "tk2", "tk3", "ny1", "ny2"]
    nodes = {name: {"kafka": name[:2]} for name in names}
    return topology_from_mapping({"kafka": {"tk": {}, "ny": {}}, "nodes": nodes, "zones": zones})


@pytest.mark.parametrize("seed", range(6))
def test_an_implicit_route_known_to_its_ends_alone(seed: int) -> None:
    """Figure 36 and TK3-NY1, of which only those two know; each file is legal. Spec: EMS-6, K27."""
    tokyo, world = one_hop("tk1-tk2", "tk1-tk3", "tk2-tk3"), multi_hop("tk1-ny1")
    files = dict.fromkeys(
        ("tk1", "tk2", "ny2"), cities(TK=tokyo, NY=one_hop("ny1-ny2"), WO=world)
    )
    files["tk3"] = cities(TK=one_hop("tk1-tk3", "tk2-tk3"), XX=one_hop("tk3-ny1"))
    files["ny1"] = cities(NY=one_hop("ny1-ny2"), WO=world, XX=one_hop("tk3-ny1"))
    mesh = ApartMesh(files, seed=seed)
    order = mesh.rng.sample(sorted(files), len(files))
    mesh.start(*order, gap_ms=mesh.rng.choice([0, 100, 3_000]))
    mesh.settle()
    assert mesh.refused() == {frozenset(("tk3", "ny1"))}
    mesh.assert_settled()
