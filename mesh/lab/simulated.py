"""The lab on the simulator: the pure core under a virtual clock. Spec: lab.md, `--backend sim`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from mesh.errors import StartError
from mesh.lab.backend import PAUSE_S, Backend
from mesh.lab.scenario import Scenario
from mesh.lab.world import World
from mesh.model.topology import Topology
from mesh.transport.port import TopicPartition
from mesh.trees.settings import Settings
from mesh.worker.process.injected_faults import InjectedFaults

TASK_MS = 50
"""How often what accompanies a scenario is called."""


@dataclass
class SimulatedBackend(World, Backend):
    """A world that scenarios run in: no worker ends for good by itself here, and nobody audits."""

    _tasks: Sequence[Callable[[], None]] = ()
    _called_ms: int = 0

    @classmethod
    def of(cls, scenario: Scenario) -> Self:
        """Return the world of a scenario."""
        trees = Settings() if scenario.uses_trees else None
        return cls(scenario.topology, scenario.seed, dict(scenario.apart), trees=trees)

    def now_ms(self) -> int:
        """Return virtual time."""
        return self.clock.ms

    def advance(self, at_most_s: float = PAUSE_S) -> None:  # noqa: ARG002
        """Let one worker take its turn."""
        super().advance()
        if self._tasks and self.now_ms() - self._called_ms >= TASK_MS:
            self._called_ms = self.now_ms()
            for task in self._tasks:
                task()

    def bring(self, topology: Topology) -> Topology:
        """Make the Kafka clusters that are not there yet; they need no address."""
        self.add_kafka(topology)
        return topology

    def inject(self, node: str, faults: InjectedFaults, *, awaited: bool = True) -> None:  # noqa: ARG002
        """Let the node pretend this, at once."""
        self.cut(node, faults.cuts)
        self.slow(node, faults.slow)
        self.set_clock(node, faults.clock_s)

    def truncate(self, place: TopicPartition, kafka: str, records: int) -> int:
        """Take the newest records away; open transactions end before, as at a restart."""
        broker = self.kafka[kafka]
        if place.topic not in broker.topics:
            raise StartError(f"no log of {place} in Kafka cluster {kafka}")
        log = broker.topics[place.topic].logs[place.partition]
        held = sum(entry is not None for entry in log.entries)
        if held < records:
            raise StartError(f"{place} has {held} records and cannot lose {records}")
        broker.end_transactions()
        return broker.truncate(place, records)

    def delete_topic(self, topic: str, kafka: str) -> None:
        """Delete a topic with its records."""
        self.kafka[kafka].delete_topic(topic)

    def accompany(self, tasks: Sequence[Callable[[], None]]) -> None:
        """Call these at intervals of virtual time, until `part`."""
        self._tasks = tasks

    def part(self) -> None:
        """Stop calling them."""
        self._tasks = ()

    def guarded(self) -> Sequence[str]:
        """Return no workers: none ends by itself here."""
        return ()

    def found(self) -> None:
        """Say that nobody audits here."""

    def audit(self, delivered: object) -> None:
        """Say that nobody audits here."""
