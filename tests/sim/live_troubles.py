"""What breaks while everything changes, and mends itself: see `live_trials`."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mesh.lab.driver import Driver
from mesh.lab.faults import StepFailedError
from mesh.lab.simulated import SimulatedBackend
from mesh.lab.steps import Clock, Cut, Heal, KillBroker, Pause, Resume, StartBroker

SHARE = 0.03
"""Share of 50 ms in which something breaks."""
LASTS_MS = (50, 300, 1_000, 1_000, 3_000)


@dataclass
class Troubles:
    """Links that are cut or disabled, Kafka clusters that are gone, nodes that stand still.

    Attributes:
        steady: Ends of links that no change removes or adds: operators may disable these.
        left: So many may come yet before `mend`.
        mending: What ends each one that lasts, and when.
        away: Kafka clusters that do not answer.
    """

    driver: Driver
    backend: SimulatedBackend
    rng: random.Random
    steady: Sequence[tuple[str, str]]
    left: int = 0
    mending: dict[tuple[str, ...], tuple[int, Callable[[], None]]] = field(default_factory=dict)

    @property
    def away(self) -> Sequence[str]:
        return [key[1] for key in self.mending if key[0] == "kafka"]

    @property
    def is_over(self) -> bool:
        """Whether nothing is broken now."""
        return not any(map(self._is_there, self.mending))

    def _is_there(self, key: tuple[str, ...]) -> bool:
        return key[0] == "kafka" or set(key[1:]) <= set(self.driver.topology.nodes)

    def step(self, nodes: Sequence[str], up: Sequence[str]) -> None:
        """End what has lasted, and let something begin now and then.

        Args:
            nodes: Who is part of every mesh that may be in force.
            up: Those of them that run.
        """
        now_ms = self.backend.now_ms()
        for key in [key for key, (until, _) in self.mending.items() if until <= now_ms]:
            self._end(key)
        if not self.left or self.rng.random() > SHARE:
            return
        self.left -= 1
        kind = self.rng.choice(["cut", "disable", "kafka", "pause", "clock"])
        getattr(self, f"_{kind}")(nodes, up)

    def mend(self) -> None:
        """End everything, and let nothing begin any more."""
        self.left = 0
        for key in list(self.mending):
            self._end(key)

    def _end(self, key: tuple[str, ...]) -> None:
        if not self._is_there(key):
            return  # the change that brought a node has gone back: when it comes again
        try:
            self.mending[key][1]()
        except StepFailedError:
            if not self.away:
                raise
            return  # its Kafka cluster is gone: later
        del self.mending[key]
        self.driver.faults.is_hasty = bool(self.away)

    def _lasts(self, key: tuple[str, ...], end: Callable[[], None]) -> None:
        self.mending[key] = self.backend.now_ms() + self.rng.choice(LASTS_MS), end

    def _link(self, nodes: Sequence[str]) -> list[str] | None:
        links = [link.ends for link in self.driver.topology.links if set(link.ends) <= set(nodes)]
        return list(self.rng.choice(links)) if links else None

    def _cut(self, nodes: Sequence[str], _: Sequence[str]) -> None:
        if (ends := self._link(nodes)) is None or ("cut", *ends) in self.mending:
            return
        faults = self.driver.faults
        faults.run(Cut(link=ends))
        self._lasts(("cut", *ends), lambda: faults.run(Heal(link=ends)))

    def _disable(self, nodes: Sequence[str], _: Sequence[str]) -> None:
        if not self.steady or self.away:
            return
        ends = list(self.rng.choice(self.steady))
        if ("disable", *ends) in self.mending or not set(ends) <= set(nodes):
            return
        faults = self.driver.faults
        faults.disable(ends, is_disabled=True)
        self._lasts(("disable", *ends), lambda: faults.disable(ends, is_disabled=False))

    def _kafka(self, *_: Sequence[str]) -> None:
        name = self.rng.choice(sorted(self.driver.topology.kafka))
        if name in self.away:
            return
        faults = self.driver.faults
        faults.is_hasty = True
        faults.run(KillBroker(kafka=name))
        self._lasts(("kafka", name), lambda: self._bring_back(name))

    def _bring_back(self, name: str) -> None:
        if name in self.driver.topology.kafka:
            self.driver.faults.run(StartBroker(kafka=name))
        else:  # the change that brought it has gone back, and is asked for again some day
            self.backend.kafka[name].available = True

    def _pause(self, _: Sequence[str], up: Sequence[str]) -> None:
        faults = self.driver.faults
        serving = [node for node in up if node in faults.serving()]
        if not serving:
            return
        node = self.rng.choice(serving)
        faults.run(Pause(node=node))
        self._lasts(("pause", node), lambda: self._resume(node))

    def _resume(self, node: str) -> None:
        faults = self.driver.faults
        if node in faults.running and node not in faults.serving():
            faults.run(Resume(node=node))

    def _clock(self, _: Sequence[str], up: Sequence[str]) -> None:
        if up:
            jump_s = self.rng.choice([-30, -2, 2, 30])
            self.driver.faults.run(Clock(node=self.rng.choice(up), jump_s=jump_s))
