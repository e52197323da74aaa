"""Random subjects, filters and scenarios, and what must come of a scenario."""

from __future__ import annotations

import random
from collections import Counter

from mesh.lab.scenario import Scenario
from mesh.lab.steps import Drain, Publish, Settle, Step, Subscribe
from mesh.model.subject import matches
from mesh.model.topology import Topology
from tests.sim.meshes import naive_copies, random_legal_topology

LEVELS = ["a", "b", "c"]


def random_subject(rng: random.Random) -> str:
    return "/".join(rng.choice(LEVELS) for _ in range(rng.randint(1, 3)))


def random_filter(rng: random.Random) -> str:
    levels = [rng.choice([*LEVELS, "*"]) for _ in range(rng.randint(1, 3))]
    if rng.random() < 0.3:
        levels.append(">")
    return "/".join(levels)


def random_scenario(seed: int, *, lanes_max: int = 1, joined: bool = False) -> Scenario:
    rng = random.Random(seed)
    topology = random_legal_topology(rng, lanes_max=lanes_max, joined=joined)
    nodes = sorted(topology.nodes)
    steps: list[Step] = []
    for index in range(rng.randint(1, 8)):
        wish = Subscribe.model_validate(
            {"node": rng.choice(nodes), "endpoint": f"e{index % 3}", "filter": random_filter(rng)}
        )
        steps.append(wish)
    steps.append(Settle())
    for _ in range(rng.randint(1, 10)):
        message = Publish(
            node=rng.choice(nodes),
            subject=random_subject(rng),
            count=rng.randint(1, 5),
            key=rng.choice([None, "k1", "k2"]),
        )
        steps.append(message)
    steps.append(Drain())
    return Scenario(
        name=f"random-{seed}", seed=seed, audit=False, topology=topology, steps=tuple(steps)
    )


def expected(scenario: Scenario) -> tuple[Counter[str], Counter[str], Counter[tuple[str, str]]]:
    """Return messages per link, per endpoint, and per (endpoint, path)."""
    topology: Topology = scenario.topology
    wishes = [one for one in scenario.steps if isinstance(one, Subscribe)]
    links: Counter[str] = Counter()
    endpoints: Counter[str] = Counter()
    paths: Counter[tuple[str, str]] = Counter()
    for named in scenario.steps:
        message = named
        if not isinstance(message, Publish):
            continue
        wanted: dict[str, set[str]] = {}
        filters: dict[str, list[str]] = {}
        for wish in wishes:
            filters.setdefault(wish.node, []).append(wish.filter)
            if matches(wish.filter, message.subject):
                wanted.setdefault(wish.node, set()).add(wish.endpoint)
        copies = naive_copies(topology, message.node, message.subject, filters)
        for node, names in wanted.items():
            if node != message.node and node not in copies:
                continue
            path = node if node == message.node else ">".join(copies[node].nodes)
            for name in names:
                endpoints[f"{node}/{name}"] += message.count
                paths[f"{node}/{name}", path] += message.count
        for way in copies.values():
            links[way.links[-1]] += message.count
    return links, endpoints, paths
