"""Who is reached from where, and how, in the figures of the source systems."""

from __future__ import annotations

from collections.abc import Callable

from mesh.core.walks import walks_from
from mesh.model.topology import Topology
from tests.unit.core.conftest import FIG36

MeshOf = Callable[..., Topology]


def ways(topology: Topology, source: str) -> dict[str, list[str]]:
    """Every walk from a node, as text, by the node reached."""
    found = walks_from(topology, source)
    return {node: [">".join(walk.nodes) for walk in found[node]] for node in sorted(found)}


def reach(topology: Topology, source: str) -> str:
    """The nodes reached from a node."""
    return " ".join(ways(topology, source))


def test_figure_34_multi_hop(mesh_of: MeshOf) -> None:
    """A multi-hop zone passes on along every link but the arrival's. Spec: EMS-1."""
    topology = mesh_of("Z1 multi-hop a-b b-c b-d d-e")
    assert ways(topology, "b") == {"a": ["b>a"], "c": ["b>c"], "d": ["b>d"], "e": ["b>d>e"]}
    assert ways(topology, "e") == {
        "a": ["e>d>b>a"],
        "b": ["e>d>b"],
        "c": ["e>d>b>c"],
        "d": ["e>d"],
    }


def test_figure_34_one_hop(mesh_of: MeshOf) -> None:
    """The same links in a one-hop zone pass nothing on. Spec: EMS-2."""
    topology = mesh_of("Z1 one-hop a-b b-c b-d d-e")
    assert {node: reach(topology, node) for node in "abcde"} == {
        "a": "b",
        "b": "a c d",
        "c": "b",
        "d": "b e",
        "e": "d",
    }


def test_figure_35(mesh_of: MeshOf) -> None:
    """Each of two reaches each of two others, and no equal. Spec: EMS-3."""
    topology = mesh_of("Z2 one-hop b1-m b1-r b2-m b2-r")
    assert {node: reach(topology, node) for node in ("b1", "b2", "m", "r")} == {
        "b1": "m r",
        "b2": "m r",
        "m": "b1 b2",
        "r": "b1 b2",
    }


def test_figure_36(mesh_of: MeshOf) -> None:
    """Three cities and the world: one way to everybody. Spec: EMS-4."""
    topology = mesh_of(*FIG36)
    assert ways(topology, "tk3") == {
        "ny1": ["tk3>tk1>ny1"],
        "ny2": ["tk3>tk1>ny1>ny2"],
        "ny3": ["tk3>tk1>ny1>ny3"],
        "pa1": ["tk3>tk1>ny1>pa1"],
        "pa2": ["tk3>tk1>ny1>pa1>pa2"],
        "pa3": ["tk3>tk1>ny1>pa1>pa3"],
        "tk1": ["tk3>tk1"],
        "tk2": ["tk3>tk2"],
    }
    assert ways(topology, "ny2") == {
        "ny1": ["ny2>ny1"],
        "ny3": ["ny2>ny3"],
        "pa1": ["ny2>ny1>pa1"],
        "pa2": ["ny2>ny1>pa1>pa2"],
        "pa3": ["ny2>ny1>pa1>pa3"],
        "tk1": ["ny2>ny1>tk1"],
        "tk2": ["ny2>ny1>tk1>tk2"],
        "tk3": ["ny2>ny1>tk1>tk3"],
    }


def test_hop_count_restarts_both_ways(mesh_of: MeshOf) -> None:
    """As a one-hop chain the world ends after one city; with three routes it does not. Spec: EMS-5."""
    chain = mesh_of(*FIG36[:3], "WO one-hop tk1-ny1 ny1-pa1")
    assert reach(chain, "tk3") == "ny1 ny2 ny3 tk1 tk2"
    assert reach(chain, "ny2") == "ny1 ny3 pa1 pa2 pa3 tk1 tk2 tk3"
    full = mesh_of(*FIG36[:3], "WO one-hop tk1-ny1 ny1-pa1 tk1-pa1")
    for source in full.nodes:
        found = ways(full, source)
        assert sorted(found) == sorted(node for node in full.nodes if node != source)
        assert all(len(walks) == 1 for walks in found.values())


def test_overlapping_one_hop_zones(mesh_of: MeshOf) -> None:
    """A point of contact does not count as a hop. Spec: EMS-8."""
    for between in ("Z1 one-hop a-b b-c a-d", "Z3 one-hop a-d"):
        zones = ["Z1 one-hop a-b b-c", "Z2 one-hop d-e d-f f-g", between]
        topology = mesh_of(*(zones[1:] if between.startswith("Z1") else zones))
        assert reach(topology, "a") == "b d e f"
        assert reach(topology, "d") == ("a e f" if between.startswith("Z1") else "a b e f")
    same = mesh_of("Z1 one-hop a-b b-c", "Z2 one-hop d-e d-f f-g a-d")
    assert reach(same, "a") == "b d"


def test_square(mesh_of: MeshOf) -> None:
    """A ring of four in a one-hop zone. Spec: EMS-10."""
    topology = mesh_of("Z one-hop q-s q-r r-t t-s")
    assert reach(topology, "q") == "r s"


def test_no_transit_through_external_links(mesh_of: MeshOf) -> None:
    """No message crosses two external links, whatever it crosses in between. Spec: DMR-3, DMR-13."""
    topology = mesh_of(
        "A cluster a1 a2",
        "B cluster b1 b2",
        "C cluster c1 c2",
        "D cluster d1 d2",
        "X external a1-b1 a1-c1 b1-d1 c1-d1",
    )
    assert reach(topology, "d2") == "b1 b2 c1 c2 d1"
    assert ways(topology, "b2")["a2"] == ["b2>b1>a1>a2"]


def test_two_gateways_per_cluster(mesh_of: MeshOf) -> None:
    """Two gateways towards different clusters are no second way. Spec: DMR-3."""
    topology = mesh_of(
        "A cluster a1 a2 a3",
        "B cluster b1 b2",
        "C cluster c1 c2",
        "D cluster d1 d2",
        "X external a1-b1 a2-c1 b2-d1 c2-d2",
    )
    assert reach(topology, "a3") == "a1 a2 b1 b2 c1 c2"
    assert ways(topology, "a1")["c2"] == ["a1>a2>c1>c2"]
    assert reach(topology, "d1") == "b1 b2 c1 c2 d2"


def test_external_mark_survives_other_zones(mesh_of: MeshOf) -> None:
    """Hop counts restart where the zone changes, the external mark does not. Spec: DESIGN 3."""
    topology = mesh_of("X external a-b", "M multi-hop b-c", "Y external c-d")
    assert reach(topology, "a") == "b c"
    assert reach(topology, "b") == "a c d"


def test_relay_gateway(mesh_of: MeshOf) -> None:
    """A gateway passes on to every other cluster, and nothing foreign. Spec: DMR-4."""
    topology = mesh_of(
        "A cluster a1 a2 a3", "B cluster b1 b2", "C cluster c1", "X external a1-b1 a1-c1"
    )
    assert ways(topology, "a2") == {
        "a1": ["a2>a1"],
        "a3": ["a2>a3"],
        "b1": ["a2>a1>b1"],
        "b2": ["a2>a1>b1>b2"],
        "c1": ["a2>a1>c1"],
    }
    assert reach(topology, "b2") == "a1 a2 a3 b1"


def test_cluster_is_a_one_hop_zone(mesh_of: MeshOf) -> None:
    """A mesh cluster forwards as a one-hop zone does. Spec: DMR-13."""
    for kind in ("cluster", "one-hop"):
        assert reach(mesh_of(f"C {kind} a b c d"), "a") == "b c d"


def test_walks_of_an_illegal_topology_end(mesh_of: MeshOf) -> None:
    """A walk ends at the first repeated node, a listing at its limit. Spec: lab.md 3."""
    ring = mesh_of("Z multi-hop a-b b-c a-c")
    assert ways(ring, "a") == {
        "a": ["a>b>c>a", "a>c>b>a"],
        "b": ["a>b", "a>c>b"],
        "c": ["a>c", "a>b>c"],
    }
    full = mesh_of("Z multi-hop " + " ".join(f"n{i}-n{j}" for j in range(12) for i in range(j)))
    assert sum(map(len, walks_from(full, "n0", walks_max=500).values())) == 500


def test_lone_node_reaches_nobody(mesh_of: MeshOf) -> None:
    """The source itself is left out. Spec: lab.md 3."""
    assert walks_from(mesh_of("Z cluster a"), "a") == {}
