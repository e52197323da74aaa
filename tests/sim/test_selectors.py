"""Selectors on random legal topologies: what an oracle lets through arrives, and nothing else."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from mesh.lab.run import run_scenario
from mesh.lab.scenario import Scenario
from mesh.lab.simulated import SimulatedBackend
from mesh.lab.steps import Publish, Subscribe
from mesh.model.selectors import Selector
from mesh.model.subject import matches
from tests.sim.drawn import random_scenario
from tests.sim.meshes import naive_copies

Verdict = Callable[[str, Mapping[str, str]], bool]
CONDITIONS: Mapping[str, Verdict] = {
    'subject.startsWith("a")': lambda subject, headers: subject.startswith("a"),
    'headers["k"] == "1"': lambda subject, headers: headers.get("k") == "1",
    'has(headers.j) || subject == "b"': lambda subject, headers: "j" in headers or subject == "b",
}


def with_selectors(scenario: Scenario, rng: random.Random) -> Scenario:
    """Put conditions on some directions, and headers on some messages."""
    topology = scenario.topology
    ways = [pair for link in topology.links for pair in (link.ends, link.ends[::-1])]
    senders = [way for way in ways if topology.sends(*way)]
    selectors = tuple(
        Selector(source=source, target=target, when=rng.choice(list(CONDITIONS)))
        for source, target in rng.choices(senders, k=rng.randint(1, 4))
    )
    steps = [
        one.model_copy(update={"headers": random_headers(rng)}) if isinstance(one, Publish) else one
        for one in scenario.steps
    ]
    topology = replace(topology, selectors=selectors)
    return replace(scenario, topology=topology, steps=tuple(steps))


def random_headers(rng: random.Random) -> dict[str, str]:
    return {name: rng.choice("12") for name in "jk" if rng.random() < 0.6}


def expected(scenario: Scenario) -> tuple[Counter[str], Counter[str]]:
    """Return messages per link and per endpoint: those whose every step lets them through."""
    topology = scenario.topology
    links: Counter[str] = Counter()
    endpoints: Counter[str] = Counter()
    wishes = [one for one in scenario.steps if isinstance(one, Subscribe)]
    filters: dict[str, list[str]] = {}
    for wish in wishes:
        filters.setdefault(wish.node, []).append(wish.filter)
    for message in [one for one in scenario.steps if isinstance(one, Publish)]:
        reached = {message.node: None}
        for node, way in naive_copies(topology, message.node, message.subject, filters).items():
            if all(
                CONDITIONS[one.when](message.subject, message.headers)
                for one in topology.selectors
                if f"{one.source}->{one.target}" in way.links
            ):
                reached[node] = None
                links[way.links[-1]] += message.count
        names = {
            f"{wish.node}/{wish.endpoint}": None
            for wish in wishes
            if wish.node in reached and matches(wish.filter, message.subject)
        }
        for name in names:
            endpoints[name] += message.count
    return links, endpoints


@pytest.mark.parametrize("seed", range(7000, 7024))
def test_what_every_selector_on_the_way_lets_through_arrives(seed: int) -> None:
    """Spec: EMS-14, DESIGN 3."""
    scenario = random_scenario(seed, lanes_max=2, joined=seed % 2 == 0)
    scenario = with_selectors(scenario, random.Random(f"selectors {seed}"))
    backend = SimulatedBackend(scenario.topology, scenario.seed)
    result = run_scenario(scenario, backend, backend_name="sim")
    assert result["ok"], result["steps"]
    links, endpoints = expected(scenario)
    found = {name: link["messages"] for name, link in result["links"].items()}
    assert {name: n for name, n in found.items() if n} == dict(links)
    for name, endpoint in result["endpoints"].items():
        assert endpoint["count"] == endpoint["distinct"] == endpoints[name]
        assert endpoint["missing"] == endpoint["disordered"] == 0
