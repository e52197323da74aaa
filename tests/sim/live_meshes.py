"""Meshes that follow each other while everything changes: see `live_trials`."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import pairwise

from mesh.config.topology_writer import topology_spec
from mesh.lab.steps import Subscribe
from mesh.model.topology import Topology
from mesh.node.relinking import link_changes
from tests.sim.interplay import Phase, random_rest, random_wishes
from tests.sim.meshes import random_legal_topology
from tests.sim.swarm.targets import next_topologies

BARE = {"interest": [], "selectors": [], "queues": {}, "covering": False, "limits": []}


def random_phases(
    rng: random.Random, *, joined: bool, limited: bool, classed: bool
) -> tuple[list[Phase], list[Subscribe]]:
    """Return meshes that follow each other, at least one, and who asks for what."""
    first = random_legal_topology(rng, nodes_max=rng.choice([3, 4, 5]), lanes_max=2, joined=joined)
    topologies = [first, *next_topologies(rng, first, rng.choice([1, 1, 2]), joined=joined)]
    wishes = random_wishes(rng, sorted(first.nodes))
    phases: list[Phase] = []
    for topology in topologies:
        here = [wish for wish in wishes if wish.node in topology.nodes]
        rest = random_rest(rng, topology, here) if here else {}
        if limited:
            rest["limits"] = random_limits(rng, topology)
        spec = {**topology_spec(topology), **BARE, **rest}
        if classed:
            _close_clusters(rng, spec)
        phases.append(Phase(spec, here))
    return phases, wishes


def random_limits(rng: random.Random, topology: Topology) -> list[dict[str, object]]:
    """Draw how much may wait at some links before their sources stop: nothing is lost of it."""
    return [
        {"link": list(link.ends), "outboxBytes": rng.choice([200, 1_000]), "whenFull": "stop"}
        for link in topology.links
        if rng.random() < 0.2
    ]


def _close_clusters(rng: random.Random, spec: Mapping[str, object]) -> None:
    """Let guaranteed messages cross no link of some clusters. Spec: DMR-11."""
    for zone in spec["zones"].values():  # type: ignore[attr-defined]
        if zone["kind"] == "cluster" and rng.random() < 0.4:
            zone["directOnly"] = True


def steady_links(phases: Sequence[Phase]) -> Sequence[tuple[str, str]]:
    """Return the ends of the links that stay what they are from the first mesh to the last."""
    topologies = [phase.topology for phase in phases]
    return [
        link.ends
        for link in topologies[0].links
        if all(set(link.ends) <= set(one.nodes) for one in topologies)
        and not any(
            other in link_changes(*pair, one).gone
            for pair in pairwise(topologies)
            for one, other in (link.ends, link.ends[::-1])
        )
    ]
