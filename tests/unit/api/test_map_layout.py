"""Where nodes are drawn: apart from each other, and where they were before."""

from __future__ import annotations

from itertools import combinations
from math import hypot

import pytest

from mesh.api.map_layout import NODE_GAP, places_of
from mesh.config.topology_file import topology_from_mapping
from mesh.model.topology import Topology


def _mesh(*kafka: int, more: int = 0) -> Topology:
    """Kafka clusters of so many nodes each, their first nodes in a chain."""
    nodes = {f"n{k}-{i}": {"kafka": f"k{k}"} for k, size in enumerate(kafka) for i in range(size)}
    nodes |= {f"z{i}": {"kafka": "k0"} for i in range(more)}
    links = [[f"n{k}-0", f"n{k + 1}-0"] for k in range(len(kafka) - 1)]
    links += [["n0-0", f"z{i}"] for i in range(more)]
    links += [[f"n{k}-0", f"n{k}-{i}"] for k, size in enumerate(kafka) for i in range(1, size)]
    clusters = {f"k{k}": None for k in range(len(kafka))}
    zones = {"Z": {"kind": "multi-hop", "links": links}}
    return topology_from_mapping({"kafka": clusters, "nodes": nodes, "zones": zones})


@pytest.mark.parametrize("sizes", [(1,), (2, 1), (5, 3, 4), (24, 1, 1), (20,) * 10])
def test_nodes_lie_apart_and_inside_of_their_regions(sizes: tuple[int, ...]) -> None:
    """No two circles touch, no two regions overlap."""
    topology = _mesh(*sizes)
    places = places_of(topology)
    for one, other in combinations(places.nodes.values(), 2):
        assert hypot(one[0] - other[0], one[1] - other[1]) >= NODE_GAP * 0.7
    for node, (x, y) in places.nodes.items():
        region = places.regions[topology.nodes[node].kafka]
        assert region.x < x < region.x + region.width
        assert region.y < y < region.y + region.height
    for one, other in combinations(places.regions.values(), 2):
        assert (
            one.x + one.width <= other.x
            or other.x + other.width <= one.x
            or one.y + one.height <= other.y
            or other.y + other.height <= one.y
        )


def test_places_follow_from_the_topology_alone() -> None:
    """The same at every visit."""
    assert places_of(_mesh(5, 3, 4)) == places_of(_mesh(5, 3, 4))


def test_a_node_more_moves_nobody_and_lies_near_its_neighbour() -> None:
    """A map is remembered."""
    before = places_of(_mesh(5, 3, 4))
    after = places_of(_mesh(5, 3, 4, more=1), before)
    assert {node: after.nodes[node] for node in before.nodes} == before.nodes
    assert after.regions == before.regions
    x, y = after.nodes["n0-0"]
    assert hypot(after.nodes["z0"][0] - x, after.nodes["z0"][1] - y) < 3 * NODE_GAP


def test_what_is_linked_lies_nearer_than_by_names_alone() -> None:
    """The first node of each Kafka cluster faces the next Kafka cluster."""
    topology = _mesh(6, 6)
    places = places_of(topology)
    ends = [places.nodes["n0-0"], places.nodes["n1-0"]]
    bridge = hypot(ends[0][0] - ends[1][0], ends[0][1] - ends[1][1])
    others = [
        hypot(places.nodes[f"n0-{i}"][0] - ends[1][0], places.nodes[f"n0-{i}"][1] - ends[1][1])
        for i in range(1, 6)
    ]
    assert bridge < sum(others) / len(others)
