"""Large legal topologies of the shapes that people build, as the text of a topology file."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, pairwise

Zones = dict[str, str]
"""Zone -> what stands behind its name."""

ZONE_NODES = 5
CLUSTER_NODES = 10


def _pairs(links: Sequence[tuple[str, str]]) -> str:
    return "[" + ", ".join(f"[{a}, {b}]" for a, b in links) + "]"


def one_hop_chain(nodes: Sequence[str]) -> Zones:
    """Return full one-hop zones of five in a row, each sharing one node with the next."""
    starts = range(0, max(1, len(nodes) - 1), ZONE_NODES - 1)
    return {
        f"Z{number}": f"{{kind: one-hop, nodes: [{', '.join(nodes[at : at + ZONE_NODES])}]}}"
        for number, at in enumerate(starts)
    }


def clusters(nodes: Sequence[str]) -> Zones:
    """Return clusters of ten; each two of them are joined by one external link."""
    members = [nodes[at : at + CLUSTER_NODES] for at in range(0, len(nodes), CLUSTER_NODES)]
    zones = {
        f"C{number}": f"{{kind: cluster, nodes: [{', '.join(part)}]}}"
        for number, part in enumerate(members)
    }
    links = [(one[0], other[0]) for one, other in combinations(members, 2)]
    if links:
        zones["X"] = f"{{kind: external, links: {_pairs(links)}}}"
    return zones


def multi_hop_tree(nodes: Sequence[str]) -> Zones:
    """Return one multi-hop zone: a random tree."""
    rng = random.Random(7)
    links = [(nodes[rng.randrange(index)], nodes[index]) for index in range(1, len(nodes))]
    return {"T": f"{{kind: multi-hop, links: {_pairs(links)}}}"}


def multi_hop_line(nodes: Sequence[str]) -> Zones:
    """Return one multi-hop zone: the longest walks there can be."""
    return {"L": f"{{kind: multi-hop, links: {_pairs(list(pairwise(nodes)))}}}"}


def mixed(nodes: Sequence[str]) -> Zones:
    """Return a world of multi-hop links between the first nodes of one-hop cities."""
    cities = [nodes[at : at + CLUSTER_NODES] for at in range(0, len(nodes), CLUSTER_NODES)]
    zones = {
        f"Z{number}": f"{{kind: one-hop, nodes: [{', '.join(part)}]}}"
        for number, part in enumerate(cities)
    }
    return zones | multi_hop_tree([part[0] for part in cities])


SHAPES: Mapping[str, Callable[[Sequence[str]], Zones]] = {
    "one-hop-chain": one_hop_chain,
    "clusters": clusters,
    "multi-hop-tree": multi_hop_tree,
    "multi-hop-line": multi_hop_line,
    "mixed": mixed,
}


def text_of(shape: str, size: int, *, extra: tuple[str, str] | None = None) -> str:
    """Return a topology file.

    Args:
        shape: One of `SHAPES`.
        size: How many nodes.
        extra: Two nodes that get a multi-hop link of their own besides, which is illegal.
    """
    nodes = [f"n{number}" for number in range(size)]
    zones = SHAPES[shape](nodes)
    if extra is not None:
        zones["EXTRA"] = f"{{kind: multi-hop, links: {_pairs([extra])}}}"
    lines = [
        "apiVersion: mesh/v1",
        "kind: Mesh",
        f"metadata: {{name: {shape}-{size}}}",
        "spec:",
        "  kafka: {k0: {}, k1: {}, k2: {}}",
        "  nodes:",
        *(f"    {node}: {{kafka: k{number % 3}}}" for number, node in enumerate(nodes)),
        "  zones:",
        *(f"    {name}: {zone}" for name, zone in zones.items()),
    ]
    return "\n".join(lines) + "\n"
