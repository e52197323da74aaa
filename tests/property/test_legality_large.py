"""Random topologies of up to thirty nodes: walks and verdicts agree with an independent oracle."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from mesh.core.conflicts import first_conflict
from mesh.core.legality import is_legal
from mesh.core.walks import Graph, walks_from
from mesh.model.topology import DeclaredKafka, Node, Topology, Zone, ZoneKind
from tests.sim.meshes import is_legal as naive_legal
from tests.sim.meshes import naive_ways

NODES_MAX = 30
WALKS_MAX = 3_000


def grown(rng: random.Random) -> Topology:
    """A topology that grows zone by zone at nodes it has, so that most are legal."""
    nodes = ["n0"]
    zones: dict[str, Zone] = {}
    clustered: set[str] = set()
    while len(nodes) < rng.randint(6, NODES_MAX):
        name = f"Z{len(zones)}"
        fresh = [f"n{len(nodes) + at}" for at in range(rng.randint(1, 5))]
        kind = rng.choice([kind for kind in ZoneKind if kind is not ZoneKind.JOIN])
        at = rng.choice(nodes)
        if kind is ZoneKind.CLUSTER and at in clustered:
            kind = ZoneKind.ONE_HOP
        if kind is ZoneKind.CLUSTER:
            clustered |= {at, *fresh}
        if kind is ZoneKind.CLUSTER or (kind is ZoneKind.ONE_HOP and rng.random() < 0.6):
            zones[name] = Zone.full_mesh(name, kind, [at, *fresh])
        else:
            tree = [at, *fresh]
            links = [(rng.choice(tree[:place]), tree[place]) for place in range(1, len(tree))]
            zones[name] = Zone.of_links(name, kind, links)
        nodes += fresh
    return Topology(
        name="grown",
        kafka={"k": DeclaredKafka(name="k")},
        nodes={node: Node(name=node, kafka="k") for node in nodes},
        zones=zones,
    )


def with_one_more_link(topology: Topology, rng: random.Random) -> Topology:
    """The same with two nodes linked besides, which is mostly illegal."""
    kind = rng.choice([ZoneKind.ONE_HOP, ZoneKind.MULTI_HOP, ZoneKind.EXTERNAL])
    first, second = rng.sample(sorted(topology.nodes), 2)
    zone = Zone.of_links("EXTRA", kind, [(first, second)])
    return replace(topology, zones={**topology.zones, "EXTRA": zone})


@pytest.mark.parametrize("block", range(8))
def test_walks_and_verdict_agree_with_the_oracle(block: int) -> None:
    """Spec: EMS-0, DESIGN 3."""
    verdicts = {True: 0, False: 0}
    for seed in range(block * 15, block * 15 + 15):
        rng = random.Random(seed)
        topology = grown(rng)
        for judged in (topology, with_one_more_link(topology, rng)):
            legal = naive_legal(judged)
            verdicts[legal] += 1
            assert is_legal(judged) is legal, seed
            if not legal:
                found = first_conflict(Graph.of(judged), sorted(judged.nodes))
                assert found is not None
                ways = {way.nodes for way in naive_ways(judged, found.source, WALKS_MAX)}
                assert {walk.nodes for walk in found.walks} <= ways, seed
                continue
            for source in judged.nodes:
                mine = sorted(w.nodes for ws in walks_from(judged, source).values() for w in ws)
                assert mine == sorted(way.nodes for way in naive_ways(judged, source)), seed
    assert min(verdicts.values()) >= 5
