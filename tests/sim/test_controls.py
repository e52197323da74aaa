"""Controls of interest on random legal topologies: what is static, kept local, or not exported.

Who gets what, and what crosses which link, is said a second time here, straight from the words of
the rules: a subject crosses no link of a node that keeps it local; a filter travels from node to
node unless all that it selects is local at the one that would offer it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from mesh.config.located import dotted
from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import topology_spec
from mesh.lab.proposals import Mesh, propose
from mesh.lab.run import run_scenario
from mesh.lab.scenario import Scenario
from mesh.lab.simulated import SimulatedBackend
from mesh.lab.steps import Apply, Drain, Publish, Settle, Step, Subscribe
from tests.sim.controls import Controls, Rules, random_controls, random_filter, random_subject
from tests.sim.meshes import naive_matches, random_legal_topology


def random_scenario(seed: int, *, changes: int = 0) -> tuple[Scenario, list[Controls]]:
    """Return a scenario, and the controls in force from its start and from each `apply` on."""
    rng = random.Random(f"controls {seed}")
    drawn = random_legal_topology(rng, nodes_max=7, lanes_max=2, joined=seed % 3 == 0)
    nodes = sorted(drawn.nodes)
    wishes = {}
    for _ in range(rng.randint(3, 8)):
        node, endpoint = rng.choice(nodes), f"e{rng.randrange(3)}"
        filter_ = random_filter(rng)
        wishes[node, endpoint, filter_] = Subscribe.model_validate(
            {
                "node": node,
                "endpoint": endpoint,
                "filter": filter_,
                "noexport": rng.random() < 0.4,
            }
        )
    phases = [random_controls(rng, nodes, [*wishes]) for _ in range(changes + 1)]
    spec = {**topology_spec(drawn), "interest": phases[0]}
    topology = topology_from_mapping(spec)
    mesh = Mesh(spec=spec, topology=topology)
    steps = list[Step](wishes.values())
    proposals = {}
    for number, controls in enumerate(phases):
        if number:
            proposal = propose(mesh, {"interest": controls}, dotted)
            assert proposal.mesh is not None
            mesh, proposals[len(steps)] = proposal.mesh, proposal
            steps.append(Apply())
        steps.append(Settle())
        for _ in range(rng.randint(6, 12)):
            message = Publish(
                node=rng.choice(nodes),
                subject=random_subject(rng),
                count=rng.randint(1, 4),
                key=rng.choice([None, "k1"]),
            )
            steps.append(message)
        steps.append(Drain())
    scenario = Scenario(
        name=f"controls-{seed}",
        seed=seed,
        audit=False,
        topology=topology,
        steps=tuple(steps),
        proposals=proposals,
    )
    return scenario, phases


def expected(scenario: Scenario, phases: Sequence[Controls]) -> tuple[Counter[str], Counter[str]]:
    """Return messages per link, and per endpoint."""
    wishes = [named for named in scenario.steps if isinstance(named, Subscribe)]
    exported: dict[str, list[str]] = {}
    for wish in wishes:
        if not wish.noexport:
            exported.setdefault(wish.node, []).append(wish.filter)
    links: Counter[str] = Counter()
    endpoints: Counter[str] = Counter()
    controls = iter(phases)
    for named in scenario.steps:
        if named.word == "settle":
            rules = Rules(scenario.topology, next(controls))
        message = named
        if not isinstance(message, Publish):
            continue
        copies = rules.copies(message.node, message.subject, exported)
        for way in copies.values():
            links[way.links[-1]] += message.count
        served = {
            f"{wish.node}/{wish.endpoint}"
            for wish in wishes
            if wish.node in (message.node, *copies) and naive_matches(wish.filter, message.subject)
        }
        endpoints.update(dict.fromkeys(served, message.count))
    return links, endpoints


def assert_exact(scenario: Scenario, phases: Sequence[Controls]) -> None:
    backend = SimulatedBackend(scenario.topology, scenario.seed)
    result = run_scenario(scenario, backend, backend_name="sim")
    links, endpoints = expected(scenario, phases)
    assert result["ok"], result["steps"]
    found = {name: link["messages"] for name, link in result["links"].items()}
    assert {name: count for name, count in found.items() if count} == dict(links)
    for name, endpoint in result["endpoints"].items():
        assert endpoint["count"] == endpoint["distinct"] == endpoints[name]
        assert endpoint["missing"] == endpoint["disordered"] == 0


@pytest.mark.parametrize("seed", range(40))
def test_controls_decide_what_crosses_and_who_gets_it(seed: int) -> None:
    """Spec: EMS-11, DMR-12, UM-1, DESIGN 3."""
    assert_exact(*random_scenario(seed))


@pytest.mark.parametrize("seed", range(100, 125))
def test_controls_that_change_are_followed_in_place(seed: int) -> None:
    """Spec: EMS-11, K28."""
    assert_exact(*random_scenario(seed, changes=2))
