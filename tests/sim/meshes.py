"""Random legal topologies of all kinds, and what must happen on them by an independent oracle."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mesh.config.topology_file import topology_from_mapping
from mesh.errors import ConfigError
from mesh.model.topology import Topology, ZoneForm, ZoneKind

KINDS = [kind.value for kind in ZoneKind if kind.form is not ZoneForm.ENDS]
"""Of zones that are drawn by their nodes or links; joins are added by their ends."""


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


def add_joins(rng: random.Random, spec: dict[str, object], *, count_max: int = 4) -> None:
    """Put joins into a spec: one-way, two-way, filtered, with and without a limit of hops."""
    nodes, zones = spec["nodes"], spec["zones"]
    assert isinstance(nodes, dict)
    assert isinstance(zones, dict)
    for index in range(rng.randint(1, count_max)):
        source, target = rng.sample(sorted(nodes), 2)
        for name, ends in ((f"J{index}", (source, target)), (f"B{index}", (target, source))):
            if name[0] == "B" and rng.random() < 0.7:
                continue
            zones[name] = {"kind": "join", "from": ends[0], "to": ends[1]}
            if rng.random() < 0.4:
                zones[name]["filter"] = rng.choice(["a/>", "*/b", "b", "a/*", ">", "b/>"])
            if rng.random() < 0.5:
                zones[name]["hops"] = rng.choice([1, 1, 2, 3])


def random_joined_topology(
    rng: random.Random, *, nodes_max: int = 8, lanes_max: int = 1
) -> Topology:
    """Return a well formed topology with joins, legal or not; some have nothing but joins."""
    while True:
        spec = _random_spec(rng, nodes_max, lanes_max)
        if rng.random() < 0.2:
            spec["zones"] = {}
        add_joins(rng, spec, count_max=6)
        try:
            return topology_from_mapping(spec)
        except ConfigError:
            continue


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
    filters: tuple[str | None, ...] = ()
    """Per link the filter of the join that it is, or None."""

    @property
    def links(self) -> list[str]:
        return [f"{a}->{b}" for a, b in zip(self.nodes, self.nodes[1:], strict=False)]


def naive_ways(topology: Topology, source: str, limit: int = 400) -> list[Way]:
    """Enumerate walks straight from the words of the specification (EMS-0, DMR-13, DESIGN 3).

    Written a second time on purpose: the product's table is what is being tested. Stops at the
    first repeated node, and at the limit, which only illegal topologies reach.
    """
    ways: list[Way] = []
    todo: list[tuple[Way, object, str, int, int, tuple[int, ...]]] = [
        (Way((source,)), None, "", 0, 0, ())
    ]
    while todo and len(ways) < limit:
        way, came, zone, hops, externals, row = todo.pop()
        here = way.nodes[-1]
        steps: list[tuple[Way, object, str, int, int, tuple[int, ...]]] = []
        for name, one in topology.zones.items():
            if one.kind == "join":
                assert one.join is not None
                pair = {one.join.source, one.join.target}
                longer = (*row, one.join.hops)
                is_short = all(len(longer) <= hops_max + 1 for hops_max in longer)
                if one.join.source == here and came != pair and is_short:
                    further = Way((*way.nodes, one.join.target), (*way.filters, one.join.filter))
                    steps.append((further, pair, name, 1, externals, longer))
                continue
            for link in one.links:
                if here not in link.ends or link == came:
                    continue
                next_hops = hops + 1 if name == zone else 1
                next_externals = externals + (one.kind == "external")
                if one.kind in ("one-hop", "cluster") and next_hops > 1:
                    continue
                if next_externals > 1:
                    continue
                further = Way((*way.nodes, link.other(here)), (*way.filters, None))
                steps.append((further, link, name, next_hops, next_externals, ()))
        for step in steps:
            ways.append(step[0])
            if step[0].nodes[-1] not in way.nodes:
                todo.append(step)
    return ways


def naive_copies(
    topology: Topology, source: str, subject: str, wishes: Mapping[str, Sequence[str]]
) -> dict[str, Way]:
    """Return by node the ways on which copies of a message go. Spec: DESIGN 3, UM-1, UM-5.

    A copy crosses a join whose filter selects it, wanted or not; any other link for somebody
    behind it whom it reaches without a join: who subscribed, or has a join that selects it.
    """
    ways = naive_ways(topology, source)
    joins = [zone.join for zone in topology.zones.values() if zone.join is not None]
    wanting = {node for node, fs in wishes.items() if any(naive_matches(f, subject) for f in fs)}
    wanting |= {join.source for join in joins if naive_matches(join.filter, subject)}
    found: dict[str, Way] = {}
    for way in sorted(ways, key=lambda one: len(one.nodes)):
        before, size = way.nodes[-2], len(way.nodes)
        if before != source and before not in found:
            continue
        if (filter_ := way.filters[-1]) is not None:
            is_taken = naive_matches(filter_, subject)
        else:
            is_taken = any(
                other.nodes[:size] == way.nodes
                and not any(other.filters[size - 1 :])
                and other.nodes[-1] in wanting
                for other in ways
            )
        if is_taken:
            found[way.nodes[-1]] = way
    return found


def is_legal(topology: Topology) -> bool:
    """No source reaches any node by two walks, or itself by one."""
    for source in topology.nodes:
        reached = Counter(way.nodes[-1] for way in naive_ways(topology, source))
        if reached[source] or any(count > 1 for count in reached.values()):
            return False
    return True


def random_legal_topology(
    rng: random.Random, *, nodes_max: int = 8, lanes_max: int = 1, joined: bool = False
) -> Topology:
    """Return a random legal topology with at least one link."""
    drawn = random_joined_topology if joined else random_topology
    while True:
        topology = drawn(rng, nodes_max=nodes_max, lanes_max=lanes_max)
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
