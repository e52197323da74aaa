"""The rules of static, local and unexported interest, said once more."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from mesh.model.topology import Topology
from tests.sim.meshes import Way, naive_matches, naive_ways

SUBJECTS = ["/".join(levels) for n in range(1, 6) for levels in itertools.product("abcz", repeat=n)]
"""More levels than any filter here has, and a word that none has: enough to compare filters."""


Controls = Sequence[Mapping[str, str]]


@dataclass(frozen=True)
class Rules:
    """What an oracle knows: ways of the topology, and the controls in force."""

    topology: Topology
    controls: Controls

    def local(self, node: str) -> list[str]:
        return [one["local"] for one in self.controls if one["node"] == node and "local" in one]

    def static(self, node: str) -> list[str]:
        return [one["static"] for one in self.controls if one["node"] == node and "static" in one]

    def keeps(self, node: str, subject: str) -> bool:
        return any(naive_matches(one, subject) for one in self.local(node))

    def hides(self, node: str, filter_: str) -> bool:
        return any(selected(filter_) <= selected(one) for one in self.local(node))

    def copies(
        self, source: str, subject: str, wishes: Mapping[str, Sequence[str]]
    ) -> dict[str, Way]:
        """Return by node the ways that copies take; wishes are those that are exported."""
        joins = [zone.join for zone in self.topology.zones.values() if zone.join is not None]
        wanted = {node: [*wishes.get(node, ()), *self.static(node)] for node in self.topology.nodes}
        for join in joins:
            wanted[join.source].append(join.filter)
        ways = naive_ways(self.topology, source)
        found: dict[str, Way] = {}
        for way in sorted(ways, key=lambda one: len(one.nodes)):
            before, size = way.nodes[-2], len(way.nodes)
            if before != source and before not in found:
                continue
            if self.keeps(before, subject) or self.keeps(way.nodes[-1], subject):
                continue
            if (filter_ := way.filters[-1]) is not None:
                is_taken = naive_matches(filter_, subject)
            else:
                is_taken = any(
                    naive_matches(wish, subject)
                    and not any(self.hides(node, wish) for node in other.nodes[size - 1 :])
                    for other in ways
                    if other.nodes[:size] == way.nodes and not any(other.filters[size - 1 :])
                    for wish in wanted[other.nodes[-1]]
                )
            if is_taken:
                found[way.nodes[-1]] = way
        return found


@cache
def selected(filter_: str) -> frozenset[str]:
    return frozenset(subject for subject in SUBJECTS if naive_matches(filter_, subject))


def random_subject(rng: random.Random) -> str:
    """Few subjects, so that they meet filters and controls often."""
    return "/".join(rng.choice("ab") for _ in range(rng.choice([1, 2, 2])))


def random_filter(rng: random.Random) -> str:
    return rng.choice([random_subject(rng), random_subject(rng), "a/*", "*/b", "a/>", ">", "*"])


def random_controls(
    rng: random.Random, nodes: Sequence[str], wishes: Sequence[tuple[str, str, str]]
) -> list[dict[str, str]]:
    """Draw controls; some are of the very filters that somebody there subscribes to."""
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for _ in range(rng.randint(1, 5)):
        node, kind = rng.choice(nodes), rng.choice(["static", "local", "local"])
        filter_ = random_filter(rng)
        if kind == "local" and rng.random() < 0.6:
            node, _, filter_ = rng.choice(wishes)
        found[node, kind, filter_] = {"node": node, kind: filter_}
    return list(found.values())
