"""Nothing guaranteed is lost, doubled or out of order through kills, stops, restarts and cuts."""

from __future__ import annotations

import random

import pytest

from mesh.lab.run import run_scenario
from mesh.lab.scenario import Scenario
from mesh.lab.simulated import SimulatedBackend
from mesh.lab.steps import Cut, Drain, Heal, Kill, Publish, Settle, Start, Stop
from tests.sim.drawn import expected, random_scenario, random_subject
from tests.sim.meshes import random_legal_topology


def faulty_scenario(seed: int) -> Scenario:
    """Settle, then publish among random faults, then heal everything and drain."""
    return with_faults(random_scenario(seed, lanes_max=2), random.Random(seed))


def with_faults(calm: Scenario, rng: random.Random) -> Scenario:
    """Return a scenario with other messages, published among random faults."""
    topology, seed = calm.topology, calm.seed
    nodes = sorted(topology.nodes)
    steps = [step for step in calm.steps if step.word in ("subscribe", "settle")]
    down: set[str] = set()
    cut: set[tuple[str, str]] = set()
    for _ in range(rng.randint(4, 14)):
        move = rng.choice(["publish", "publish", "kill", "stop", "start", "cut", "heal"])
        if move == "publish":
            message = Publish(
                node=rng.choice(nodes),
                subject=random_subject(rng),
                count=rng.randint(1, 5),
                key=rng.choice([None, "k1"]),
            )
            steps.append(message)
        elif move in ("kill", "stop") and (up := [n for n in nodes if n not in down]):
            node = rng.choice(up)
            down.add(node)
            steps.append(Kill(node=node) if move == "kill" else Stop(node=node))
        elif move == "start" and down:
            node = rng.choice(sorted(down))
            down.discard(node)
            steps.append(Start(node=node))
        elif move == "cut":
            link = rng.choice(topology.links)
            cut.add(link.ends)
            steps.append(Cut(link=list(link.ends)))
        elif move == "heal" and cut:
            ends = rng.choice(sorted(cut))
            cut.discard(ends)
            steps.append(Heal(link=list(ends)))
    steps += [Heal(link=list(ends)) for ends in sorted(cut)]
    steps += [Start(node=node) for node in sorted(down)]
    steps += [Settle(), Drain()]
    return Scenario(
        name=f"faults-{seed}", seed=seed, audit=False, topology=topology, steps=tuple(steps)
    )


def assert_nothing_lost(scenario: Scenario) -> None:
    backend = SimulatedBackend(scenario.topology, scenario.seed)
    result = run_scenario(scenario, backend, backend_name="sim")
    assert result["ok"], [step for step in result["steps"] if not step["ok"]]
    links, endpoints, _ = expected(scenario)
    for name, endpoint in result["endpoints"].items():
        found = (endpoint["count"], endpoint["distinct"], endpoint["disordered"])
        assert found == (endpoints[name], endpoints[name], 0), name
    found_links = {name: link["messages"] for name, link in result["links"].items()}
    assert {name: n for name, n in found_links.items() if n} == dict(links)


@pytest.mark.parametrize("seed", range(60))
def test_faults_lose_and_double_nothing(seed: int) -> None:
    """Spec: DESIGN 6, K11, K16, EMS-13, DMR-6."""
    assert_nothing_lost(faulty_scenario(seed))


def test_same_seed_same_result() -> None:
    """Spec: DESIGN 4.2, style.md 2.5."""
    results = []
    for _ in range(2):
        scenario = faulty_scenario(5)
        backend = SimulatedBackend(scenario.topology, scenario.seed)
        results.append(run_scenario(scenario, backend, backend_name="sim"))
    assert results[0] == results[1]
    assert random_legal_topology(random.Random(3)) == random_legal_topology(random.Random(3))
