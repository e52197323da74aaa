"""Clocks differ, jump and begin anew: nothing of what is delivered depends on them. Spec: K5, K32."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from mesh.lab.world import VirtualClock
from mesh.worker.worker import Worker
from tests.sim.changing import ChangedMesh
from tests.sim.test_changes import multi_hop, topology

HOUR_MS = 3_600_000


@dataclass
class OwnClock:
    """A worker's own clock, which began at another moment, and leaps where its machine slept."""

    world: VirtualClock
    ahead_ms: int

    def now_ms(self) -> int:
        return self.world.ms + self.ahead_ms

    def wait(self, seconds: float) -> None:
        self.world.wait(seconds)


def test_all_comes_once_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers start on machines that are up for seconds or for months, later ones on younger ones.

    Brokers stamp records hours too early or too late. What is acknowledged comes all the same.
    """
    rng = random.Random(0)
    clocks: list[OwnClock] = []

    def started(*given: object, **more: object) -> Worker:
        before = 0 if len(clocks) % 2 else rng.choice((HOUR_MS, 2_000 * HOUR_MS))
        arguments = list(given)
        index = next(i for i, one in enumerate(given) if isinstance(one, VirtualClock))
        clock = OwnClock(given[index], before)  # type: ignore[arg-type]
        arguments[index] = clock
        clocks.append(clock)
        return Worker(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("mesh.lab.world.Worker", started)
    whole = topology(Z=multi_hop("ab", "bc"), lanes=2)
    mesh = ChangedMesh(whole, seed=0, workers=2)
    for turn in range(5):
        mesh.run(600, load=True)
        for node in "abc":
            mesh.world.set_clock(node, rng.uniform(-5, 5) * HOUR_MS / 1000)
        clocks[-1 - turn].ahead_ms += 3 * HOUR_MS
        mesh.run(600, load=True)
        mesh.kill_one()
    mesh.run(15_000)
    mesh.change_to(topology(Z=multi_hop("ab"), lanes=2), "abc")
    mesh.change_to(whole, "abc")
    mesh.run(500, load=True)
    mesh.settle()
    mesh.assert_exact()
