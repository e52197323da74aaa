"""Random legal topologies of all kinds, and what must happen on them by an independent oracle."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mesh.config.topology_file import topology_from_mapping
from mesh.errors import ConfigError
from mesh.model.topology import Topology

KINDS = ["cluster", "one-hop", "multi-hop", "external"]


def random_topology(rng: random.Random, *, nodes_max: int = 8, lanes_max: int = 1) -> Topology:
    """Return a topology that is well formed, legal or not."""
    while True:
        spec = _random_spec(rng, nodes_max, lanes_max)
        try:
            return topology_from_mapping(spec)
        except ConfigError:
            continue


def _random_spec(rng: random.Random, nodes_max: int, lanes_max: int) -> dict[str, object]:
    kafka = {f"k{i}": {} for i in range(rng.randint(1, 3))}
    names = [f"n{i}" for i in range(rng.randint(2, nodes_max))]
    nodes = {
        name: {"kafka": rng.choice(sorted(kafka)), "lanes": rng.randint(1, lanes_max)}
        for name in names
    }
    zones: dict[str, object] = {}
    pairs: set[tuple[str, str]] = set()
    for index in range(rng.randint(1, 5)):
        kind = rng.choice(KINDS)
        size = rng.randint(2, min(4, len(names)))
        chosen = rng.sample(names, size)
        if kind == "cluster" or (kind != "external" and rng.random() < 0.4):
            zones[f"Z{index}"] = {"kind": kind, "nodes": sorted(chosen)}
            continue
        if links := chain_of(chosen, pairs):
            zones[f"Z{index}"] = {"kind": kind, "links": links}
    return {"kafka": kafka, "nodes": nodes, "zones": zones}


def chain_of(nodes: Sequence[str], pairs: set[tuple[str, str]]) -> list[list[str]]:
    """Return links from each node to the next, those left out that are in `pairs` already."""
    links = []
    for a, b in itertools.pairwise(nodes):
        if (pair := (min(a, b), max(a, b))) not in pairs:
            pairs.add(pair)
            links.append(list(pair))
    return links


@dataclass(frozen=True)
class Way:
    """A walk by the oracle: nodes visited, and the links crossed as `a->b`."""

    nodes: tuple[str, ...]

    @property
    def links(self) -> list[str]:
        return [f"{a}->{b}" for a, b in zip(self.nodes, self.nodes[1:], strict=False)]


def naive_ways(topology: Topology, source: str, limit: int = 400) -> list[Way]:
    """Enumerate walks straight from the words of the specification (EMS-0, DMR-13, DESIGN 3).

    Written a second time on purpose: the product's table is what is being tested. Stops at the
    first repeated node, and at the limit, which only illegal topologies reach.
    """
    ways: list[Way] = []
    todo: list[tuple[tuple[str, ...], object, str, int, int]] = [((source,), None, "", 0, 0)]
    while todo and len(ways) < limit:
        path, came, zone, hops, externals = todo.pop()
        for link in topology.links_of(path[-1]):
            if link == came:
                continue
            kind = topology.zones[link.zone].kind
            next_hops = hops + 1 if link.zone == zone else 1
            next_externals = externals + (kind == "external")
            if kind in ("one-hop", "cluster") and next_hops > 1:
                continue
            if next_externals > 1:
                continue
            other = link.other(path[-1])
            ways.append(Way((*path, other)))
            if other not in path:
                todo.append(((*path, other), link, link.zone, next_hops, next_externals))
    return ways


def is_legal(topology: Topology) -> bool:
    """No source reaches any node by two walks, or itself by one."""
    for source in topology.nodes:
        reached = Counter(way.nodes[-1] for way in naive_ways(topology, source))
        if reached[source] or any(count > 1 for count in reached.values()):
            return False
    return True


def random_legal_topology(
    rng: random.Random, *, nodes_max: int = 8, lanes_max: int = 1
) -> Topology:
    """Return a random legal topology with at least one link."""
    while True:
        topology = random_topology(rng, nodes_max=nodes_max, lanes_max=lanes_max)
        if topology.links and is_legal(topology):
            return topology


def naive_matches(filter_: str, subject: str) -> bool:
    """Return whether a filter selects a subject, straight from the words of the specification.

    Written a second time on purpose, as `naive_ways` is.
    """
    wanted, levels = filter_.split("/"), subject.split("/")
    if levels[0].startswith("$") and wanted[0] in ("*", ">"):
        return False
    while wanted and levels:
        want = wanted.pop(0)
        if want == ">":
            return True
        if want not in ("*", levels.pop(0)):
            return False
    return not wanted and not levels
