"""Covering changes what is offered, and never who gets what."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from mesh.lab.run import run_scenario
from mesh.lab.scenario import Scenario
from mesh.lab.simulated import SimulatedBackend
from mesh.lab.steps import Drain, Publish, Settle, Step, Subscribe, Unsubscribe
from tests.sim.drawn import random_filter, random_subject
from tests.sim.meshes import random_legal_topology


def scenario_of(seed: int) -> Scenario:
    """Subscriptions come and go, wide and narrow, of both classes; after each, messages."""
    rng = random.Random(seed)
    topology = random_legal_topology(rng, lanes_max=2, joined=seed % 3 == 0)
    nodes, steps = sorted(topology.nodes), list[Step]()
    wishes: list[Subscribe] = []

    def add(step: Step) -> None:
        steps.append(step)

    for _ in range(4):
        for wish in rng.sample(wishes, len(wishes) // 2):
            wishes.remove(wish)
            gone = {"node": wish.node, "endpoint": wish.endpoint, "filter": wish.filter}
            add(Unsubscribe.model_validate(gone))
        for _ in range(rng.randint(2, 6)):
            class_ = rng.choice(["guaranteed", "guaranteed", "direct"])
            filter_ = rng.choice([">", "a/>", "*/>", random_filter(rng), random_filter(rng)])
            wanted = {"node": rng.choice(nodes), "endpoint": class_, "filter": filter_}
            wish = Subscribe.model_validate({**wanted, "class": class_})
            wishes.append(wish)
            add(wish)
        add(Settle())
        for _ in range(3):
            add(Publish(node=rng.choice(nodes), subject=random_subject(rng), count=2))
        add(Drain())
    return Scenario(
        name=f"covering-{seed}", seed=seed, audit=False, topology=topology, steps=tuple(steps)
    )


def run(scenario: Scenario) -> Mapping[str, Any]:
    backend = SimulatedBackend(scenario.topology, scenario.seed)
    result = run_scenario(scenario, backend, backend_name="sim")
    assert result["ok"], result["steps"]
    return result


@pytest.mark.parametrize("seed", range(8000, 8016))
def test_everybody_gets_the_same_over_the_same_links(seed: int) -> None:
    """Spec: K22, DESIGN 3."""
    scenario = scenario_of(seed)
    without = run(scenario)
    with_ = run(replace(scenario, topology=replace(scenario.topology, covering=True)))
    assert with_["endpoints"] == without["endpoints"]
    messages = [{n: one["messages"] for n, one in r["links"].items()} for r in (with_, without)]
    assert messages[0] == messages[1]
