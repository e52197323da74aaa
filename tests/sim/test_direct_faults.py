"""Direct messages through kills: none twice, and what is skipped is counted."""

from __future__ import annotations

import random

from mesh.config.topology_file import topology_from_mapping
from mesh.lab.run import run_scenario
from mesh.lab.scenario import Scenario
from mesh.lab.simulated import SimulatedBackend
from mesh.lab.steps import Drain, Kill, Publish, Settle, Start, Subscribe

CHAIN = {
    "kafka": {"k": {}},
    "nodes": {"a": {}, "b": {}, "c": {}},
    "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"]]}},
}


def scenario(seed: int) -> Scenario:
    """Publish at a, where an endpoint waits too, and kill a before it can commit."""
    rng = random.Random(seed)
    steps = [
        Subscribe(node="a", endpoint="s", filter=">", **{"class": "direct"}),
        Settle(),
    ]
    for _ in range(4):
        for _ in range(rng.randint(1, 3)):
            count = rng.choice([1, 3, 40])
            message = Publish(node="a", subject="x", count=count, **{"class": "direct"})
            steps.append(message)
            if rng.random() < 0.5:
                steps.append(Drain())
        steps.append(Kill(node="a"))
        message = Publish(node="a", subject="x", count=rng.randint(1, 5), **{"class": "direct"})
        steps.append(message)
        steps.append(Start(node="a"))
        steps.append(Settle())
    steps.append(Drain())
    topology = topology_from_mapping(CHAIN)
    return Scenario(name="direct", seed=seed, audit=False, topology=topology, steps=tuple(steps))


def test_nothing_comes_twice_and_counted_losses_are_not_missing() -> None:
    """What was committed and not yet written when the worker died is counted too.

    Spec: K18, D2, lab.md 2.
    """
    lost = 0
    for seed in range(10):
        made = scenario(seed)
        result = run_scenario(made, SimulatedBackend(made.topology, seed), backend_name="sim")
        assert result["ok"], result["steps"]
        endpoint = result["endpoints"]["a/s"]
        assert (endpoint["duplicates"], endpoint["disordered"]) == (0, 0)
        sent = [one for one in made.steps if isinstance(one, Publish)]
        lost += sum(message.count for message in sent) - endpoint["count"]
        assert endpoint["missing"] == 0
    assert lost
