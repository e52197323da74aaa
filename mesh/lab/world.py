"""Many nodes in one process under a virtual clock: the same workers, on in-memory Kafka.

Every turn of every worker is an event in one heap; which comes first among equals, and how long
a worker rests, is drawn from one seed. So a run is repeated exactly by its seed. Spec: DESIGN 4.2.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.model.topology import Topology
from mesh.runtime.intake import PolledIntake
from mesh.runtime.worker import Worker
from mesh.transport.memory import MemoryKafka
from mesh.transport.memory_group import MemoryMembership
from mesh.transport.port import KafkaCluster

REST_MS = (1, 20)
"""Shortest and longest time between two turns of a worker."""


@dataclass(slots=True)
class VirtualClock:
    """Time that passes only when the world says so."""

    ms: int = 1_000

    def now_ms(self) -> int:
        """Return the present moment."""
        return self.ms

    def wait(self, seconds: float) -> None:
        """Do nothing: waiting is the world's business."""


@dataclass(slots=True)
class World:
    """The simulated mesh.

    Attributes:
        topology: What is simulated.
        seed: Decides every order and delay.
        clock: Virtual time.
        kafka: In-memory Kafka clusters by name.
        workers: The running workers, by node.
        turns: Turns taken so far.
    """

    topology: Topology
    seed: int
    clock: VirtualClock = field(default_factory=VirtualClock)
    kafka: dict[str, MemoryKafka] = field(init=False)
    workers: dict[str, Worker] = field(default_factory=dict)
    turns: int = 0
    _cut: dict[str, Sequence[str]] = field(default_factory=dict)
    _random: random.Random = field(init=False)
    _heap: list[tuple[int, float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the Kafka clusters; nodes are started one by one."""
        self._random = random.Random(self.seed)
        self.kafka = {
            name: MemoryKafka(name, now_ms=self.clock.now_ms) for name in self.topology.kafka
        }

    def start(self, node: str) -> None:
        """Start the node's worker; it serves after some turns."""
        clusters = kafka_of(self.topology, node, self.kafka)
        readers = {name: kafka.reader(f"mesh-{node}") for name, kafka in clusters.items()}
        self.workers[node] = Worker(
            self.topology,
            node,
            clusters,
            readers,
            PolledIntake(readers),
            self.clock,
            lambda: f"{self._random.getrandbits(64):016x}",
        )
        self.workers[node].cut(self._cut.get(node, ()))
        self._schedule(node)

    def kill(self, node: str) -> None:
        """End the node's worker between two turns: volatile state goes, durable state stays."""
        worker = self.workers.pop(node)
        membership = worker.membership
        if isinstance(membership, MemoryMembership):
            membership.crash()

    def stop(self, node: str) -> None:
        """End the node's worker in good order."""
        self.workers.pop(node).close()

    def cut(self, node: str, neighbours: Sequence[str]) -> None:
        """Have the node read nothing of exactly these neighbours from now on."""
        self._cut[node] = neighbours
        if node in self.workers:
            self.workers[node].cut(neighbours)

    def advance(self) -> None:
        """Let the next worker take its turn; without any, let a little time pass."""
        while self._heap:
            at, _, node = heapq.heappop(self._heap)
            if node not in self.workers:
                continue
            self.clock.ms = max(self.clock.ms, at)
            self.turns += 1
            self.workers[node].turn(0)
            self._schedule(node)
            return
        self.clock.ms += REST_MS[1]

    def run_until(self, is_done: Callable[[], bool], limit_ms: int) -> bool:
        """Advance until a condition holds; say whether it did within the virtual time."""
        deadline = self.clock.ms + limit_ms
        while not is_done():
            if self.clock.ms > deadline:
                return False
            self.advance()
        return True

    def _schedule(self, node: str) -> None:
        at = self.clock.ms + self._random.randint(*REST_MS)
        heapq.heappush(self._heap, (at, self._random.random(), node))


def kafka_of(
    topology: Topology, node: str, kafka: Mapping[str, KafkaCluster]
) -> Mapping[str, KafkaCluster]:
    """Return the Kafka clusters that a node touches: its own and its neighbours'."""
    nodes = [node, *topology.neighbours(node)]
    names = sorted({topology.nodes[name].kafka: None for name in nodes})
    return {name: kafka[name] for name in names}
