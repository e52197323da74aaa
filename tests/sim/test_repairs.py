"""Frames vanish from outboxes, as torn transactions may leave it: the chain finds and mends it."""

from __future__ import annotations

import random

import pytest

from mesh.lab.backend import PAUSE_S
from mesh.lab.run import run_scenario
from mesh.lab.scenario import Scenario
from mesh.lab.simulated import SimulatedBackend
from mesh.lab.steps import Drain, Publish
from tests.sim.drawn import expected, random_scenario, random_subject

LOSING = (1, 3, 6, 7, 8, 9, 18, 20, 21, 26, 29, 31, 32, 34, 35, 39, 41, 42, 45, 47)
"""Scenarios in which frames vanish; in the others nothing crosses a link at the wrong moment."""


class LosingBackend(SimulatedBackend):
    """Takes committed frames away, now and then, before anybody has read them.

    It ends when so many messages are published: what comes behind shows the holes.
    """

    def __init__(self, scenario: Scenario, published: int) -> None:
        super().__init__(scenario.topology, scenario.seed)
        self._dice = random.Random(scenario.seed)
        self._published = published
        self._seen: dict[tuple[str, int], int] = {}
        self._is_over = False
        self.lost = 0

    def advance(self, at_most_s: float = PAUSE_S) -> None:
        super().advance(at_most_s)
        if self._is_over or self._ingress_records() >= self._published:
            self._is_over = True
            return
        for kafka in self.kafka.values():
            for name, topic in kafka.topics.items():
                if ".to." not in name or not name.endswith(".g"):
                    continue
                for log in topic.logs:
                    begin = self._seen.get((name, log.partition), 0)
                    self._seen[name, log.partition] = log.stable
                    for offset in range(max(begin, log.start), log.stable):
                        if self._dice.random() < 0.4:
                            self.lost += log.entries[offset - log.start] is not None
                            log.entries[offset - log.start] = None

    def _ingress_records(self) -> int:
        return sum(
            log.end
            for kafka in self.kafka.values()
            for name, topic in kafka.topics.items()
            if name.endswith(".in.g")
            for log in topic.logs
        )


def losing_scenario(seed: int) -> tuple[Scenario, int]:
    """Publish in many small steps, then the same subjects once more on every partition.

    Returns:
        The scenario, and how many messages come before the last round.
    """
    calm = random_scenario(seed, lanes_max=3)
    rng = random.Random(seed)
    steps = [step for step in calm.steps if step.word in ("subscribe", "settle")]
    nodes = sorted(calm.topology.nodes)
    for _ in range(rng.randint(5, 15)):
        message = Publish(
            node=rng.choice(nodes), subject=random_subject(rng), count=rng.randint(1, 9)
        )
        steps += [message, Drain()]
    sent = [step for step in steps if isinstance(step, Publish)]
    for node, subject in dict.fromkeys((one.node, one.subject) for one in sent):
        partitions = calm.topology.nodes[node].partitions
        message = Publish(node=node, subject=subject, count=partitions)
        steps.append(message)
    steps.append(Drain())
    scenario = Scenario(
        name=f"losing-{seed}", seed=seed, audit=False, topology=calm.topology, steps=tuple(steps)
    )
    return scenario, sum(one.count for one in sent)


@pytest.mark.parametrize("seed", LOSING)
def test_what_vanished_from_an_outbox_is_sent_again_in_order(seed: int) -> None:
    """Spec: K11, K20, R4."""
    scenario, published = losing_scenario(seed)
    backend = LosingBackend(scenario, published)
    result = run_scenario(scenario, backend, backend_name="sim")
    _, endpoints, _ = expected(scenario)
    assert backend.lost > 0
    for name, endpoint in result["endpoints"].items():
        found = (endpoint["count"], endpoint["distinct"], endpoint["disordered"])
        assert found == (endpoints[name], endpoints[name], 0), (name, backend.lost)
