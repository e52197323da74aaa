"""Direct-only clusters on random legal topologies: which class crosses which link.

Said a second time, from the words of the rule: copies go as they would, but those of guaranteed
messages end where their way would cross a link of a direct-only zone.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from mesh.config.located import dotted
from mesh.config.topology_writer import topology_spec
from mesh.lab.proposals import Mesh, propose
from mesh.lab.run import run_scenario
from mesh.lab.scenario import Scenario
from mesh.lab.simulated import SimulatedBackend
from mesh.lab.steps import Apply, Drain, Publish, Settle, Subscribe
from mesh.model.topology import Topology
from tests.sim.controls import random_filter, random_subject
from tests.sim.meshes import Way, naive_copies, naive_matches, random_legal_topology

Marks = Mapping[str, bool]
"""Cluster -> whether it is direct-only."""


def random_clustered(rng: random.Random) -> Topology:
    """Draw until there is a cluster with links."""
    while True:
        drawn = random_legal_topology(rng, nodes_max=7, lanes_max=2, joined=rng.random() < 0.2)
        if any(zone.kind == "cluster" and zone.links for zone in drawn.zones.values()):
            return drawn


def random_scenario(seed: int) -> tuple[Scenario, list[Marks]]:
    """Return a scenario, and the marks in force from its start and from each `apply` on."""
    rng = random.Random(f"direct-only {seed}")
    drawn = random_clustered(rng)
    nodes = sorted(drawn.nodes)
    clusters = [name for name, zone in drawn.zones.items() if zone.kind == "cluster"]
    first = rng.random() < 0.8
    phases: list[Marks] = [dict.fromkeys(clusters, one) for one in (first, not first, first)]
    spec = dict(topology_spec(drawn))
    mesh = Mesh(spec=spec, topology=drawn)
    steps, proposals = [], {}
    wishes = {}
    for _ in range(rng.randint(4, 8)):
        node, endpoint, filter_ = rng.choice(nodes), f"e{rng.randrange(3)}", random_filter(rng)
        wishes[node, endpoint, filter_] = {"node": node, "endpoint": endpoint, "filter": filter_}
    steps += [Subscribe.model_validate(one) for one in wishes.values()]
    for number, marks in enumerate(phases):
        zones = {name: {"directOnly": mark} for name, mark in marks.items()}
        proposal = propose(mesh, {"zones": zones}, dotted)
        assert proposal.mesh is not None
        mesh = proposal.mesh
        if number:
            proposals[len(steps)] = proposal
            steps.append(Apply())
        else:
            first_topology = mesh.topology
        steps.append(Settle())
        for _ in range(rng.randint(6, 10)):
            message = {
                "node": rng.choice(nodes),
                "subject": random_subject(rng),
                "count": rng.randint(1, 4),
                "class": rng.choice(["guaranteed", "guaranteed", "direct"]),
            }
            steps.append(Publish.model_validate(message))
        steps.append(Drain())
    scenario = Scenario(
        name=f"direct-only-{seed}",
        seed=seed,
        audit=False,
        topology=first_topology,
        steps=tuple(steps),
        proposals=proposals,
    )
    return scenario, phases


def crosses(topology: Topology, way: Way, marks: Marks) -> bool:
    barred = {link.ends for name, on in marks.items() if on for link in topology.zones[name].links}
    return any(
        tuple(sorted(step)) in barred for step in zip(way.nodes, way.nodes[1:], strict=False)
    )


def expected(scenario: Scenario, phases: Sequence[Marks]) -> tuple[Counter[str], Counter[str]]:
    """Return messages per link, and per endpoint."""
    wishes = [named for named in scenario.steps if isinstance(named, Subscribe)]
    wanted: dict[str, list[str]] = {}
    for wish in wishes:
        wanted.setdefault(wish.node, []).append(wish.filter)
    links: Counter[str] = Counter()
    endpoints: Counter[str] = Counter()
    later = iter(phases)
    marks: Marks = {}
    for named in scenario.steps:
        if named.word == "settle":
            marks = next(later)
        message = named
        if not isinstance(message, Publish):
            continue
        copies = {
            node: way
            for node, way in naive_copies(
                scenario.topology, message.node, message.subject, wanted
            ).items()
            if message.class_ == "direct" or not crosses(scenario.topology, way, marks)
        }
        for way in copies.values():
            links[way.links[-1]] += message.count
        served = {
            f"{wish.node}/{wish.endpoint}"
            for wish in wishes
            if wish.node in (message.node, *copies) and naive_matches(wish.filter, message.subject)
        }
        endpoints.update(dict.fromkeys(served, message.count))
    return links, endpoints


@pytest.mark.parametrize("seed", range(20))
def test_each_class_crosses_what_it_may(seed: int) -> None:
    """The same before and after each change that is followed in place. Spec: DMR-11, K28."""
    scenario, phases = random_scenario(seed)
    backend = SimulatedBackend(scenario.topology, scenario.seed)
    result = run_scenario(scenario, backend, backend_name="sim")
    links, endpoints = expected(scenario, phases)
    assert result["ok"], result["steps"]
    found = {name: link["messages"] for name, link in result["links"].items()}
    assert {name: count for name, count in found.items() if count} == dict(links)
    for name, endpoint in result["endpoints"].items():
        assert endpoint["count"] == endpoint["distinct"] == endpoints[name]
        assert endpoint["missing"] == endpoint["disordered"] == 0
