"""Many nodes in one process under a virtual clock: the same workers, on in-memory Kafka.

Every turn of every worker is an event in one heap; which comes first among equals, and how long
a worker rests, is drawn from one seed. So a run is repeated exactly by its seed. Spec: DESIGN 4.2.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.errors import TransportDeniedError, TransportError, TransportUnavailableError
from mesh.model.topology import Topology
from mesh.transport.memory import MemoryKafka
from mesh.transport.memory_consumer import MemoryConsumer
from mesh.transport.memory_group import MemoryMembership
from mesh.transport.port import MEMBER_TIMEOUT_MS, KafkaCluster, Reader
from mesh.trees.settings import Settings as TreeSettings
from mesh.worker.process.commits import Commits, CommitsAtOnce
from mesh.worker.process.errands import Errands, SteppedErrands
from mesh.worker.process.injected_faults import SlowIntake, SlowLink
from mesh.worker.process.intake import PolledIntake
from mesh.worker.worker import Worker

REST_MS = (1, 20)
"""Shortest and longest time between two turns of a worker that has something to do."""

IDLE_S = 0.1
"""How long one waits for records, as in a process: until a Kafka cluster that it uses has news."""

RETRY_MS = 1_000
"""How long after Kafka's troubles have ended a worker the next one starts, as in a process."""


def worker_name(node: str, index: int) -> str:
    """Return what a worker is called: the node's name, for the first; `node#1`, `node#2` ..."""
    return f"{node}#{index}" if index else node


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
        apart: Topology files of nodes that are configured apart from the others.
        seed: Decides every order and delay.
        clock: Virtual time.
        kafka: In-memory Kafka clusters by name.
        workers: The running workers, by name; the first of a node is called as the node is.
        turns: Turns taken so far.
        troubles: How often Kafka's troubles ended a worker or kept one from starting.
        trees: Settings of the tree layer; None for workers without, so that what does not need it
            does not pay for it.
        errands: Makes what does a worker's errands.
        commits: Makes what waits for commits of its lanes.
    """

    topology: Topology
    seed: int
    apart: dict[str, Topology] = field(default_factory=dict)
    clock: VirtualClock = field(default_factory=VirtualClock)
    kafka: dict[str, MemoryKafka] = field(init=False)
    workers: dict[str, Worker] = field(default_factory=dict)
    turns: int = 0
    troubles: int = 0
    trees: TreeSettings | None = None
    errands: Callable[[], Errands] = SteppedErrands
    commits: Callable[[], Commits] = CommitsAtOnce
    _cut: dict[str, Sequence[str]] = field(default_factory=dict)
    _slow: dict[str, Sequence[SlowLink]] = field(default_factory=dict)
    _intakes: dict[str, SlowIntake] = field(default_factory=dict)
    _waiting: dict[str, None] = field(default_factory=dict)
    _paused: dict[str, int] = field(default_factory=dict)
    _down: dict[str, dict[int, None]] = field(default_factory=dict)
    _left: dict[str, Topology] = field(default_factory=dict)
    _random: random.Random = field(init=False)
    _heap: list[tuple[int, float, str]] = field(default_factory=list)
    _due: dict[str, tuple[int, float]] = field(default_factory=dict)
    _changes: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make the Kafka clusters; nodes are started one by one."""
        self._random = random.Random(self.seed)
        self.kafka = {
            name: MemoryKafka(name, now_ms=self.clock.now_ms) for name in self.topology.kafka
        }

    def adopt(self, topology: Topology) -> None:
        """Have nodes that start from now on work by another topology; who leaves has its own."""
        kept = {**self._left, **dict.fromkeys(self.topology.nodes, self.topology)}
        self._left = {node: one for node, one in kept.items() if node not in topology.nodes}
        self.topology = topology

    def start(self, node: str, worker: int = 0) -> None:
        """Start a worker of the node; it serves after some turns, and once its Kafka answers."""
        name = worker_name(node, worker)
        if not self._try_to_start(name):
            self._waiting[name] = None
            self._schedule(name, RETRY_MS)

    def _try_to_start(self, name: str) -> bool:
        node = _node_of(name)
        topology = self.apart.get(node) or self._left.get(node, self.topology)
        clusters = kafka_of(topology, node, self.kafka)
        try:
            readers = {kafka: one.reader(f"mesh-{node}") for kafka, one in clusters.items()}
            intake = SlowIntake(PolledIntake(readers), self.clock.now_ms, self._random.random)
            self.workers[name] = Worker(
                topology,
                node,
                clusters,
                readers,
                intake,
                self.clock,
                self.errands(),
                lambda: f"{self._random.getrandbits(64):016x}",
                connect=lambda topology, kafka: self._connect(topology, kafka, node),
                trees=self.trees,
                commits=self.commits(),
            )
        except TransportUnavailableError:
            self.troubles += 1
            return False
        self._waiting.pop(name, None)
        self._intakes[name] = intake
        self.workers[name].isolate(self._cut.get(node, ()))
        intake.slow(self._slow.get(node, ()), node, self.topology.names)
        self._schedule(name)
        return True

    def _connect(self, topology: Topology, kafka: str, node: str) -> tuple[KafkaCluster, Reader]:
        """Open a Kafka cluster for a worker that a change of the topology leads there."""
        self.add_kafka(topology)
        return self.kafka[kafka], self.kafka[kafka].reader(f"mesh-{node}")

    def add_kafka(self, topology: Topology) -> None:
        """Make the Kafka clusters of another topology that are not there yet."""
        for name in topology.kafka:
            if name not in self.kafka:
                self.kafka[name] = MemoryKafka(name, now_ms=self.clock.now_ms)

    def kill(self, node: str, worker: int | None = None) -> None:
        """End the node's workers, or one, between two turns: volatile state goes, durable stays."""
        for name in self._names(node, worker):
            if (killed := self._forget(name)) is not None:
                _crash(killed)

    def stop(self, node: str) -> None:
        """End the node's workers in good order; one whose Kafka does not answer just ends."""
        for name in self._names(node):
            if (worker := self._forget(name)) is not None:
                try:
                    worker.close()
                except TransportError:
                    _crash(worker)

    def pause(self, node: str, worker: int | None = None) -> None:
        """Suspend the node's workers, or one; after the member timeout their lanes are free.

        A transaction that one of them has open stays open meanwhile: the workers of the
        simulator never wait for brokers, so they stand still between two turns.
        """
        for name in self._names(node, worker):
            self._paused[name] = self.clock.ms

    def resume(self, node: str, worker: int | None = None) -> None:
        """Let them go on; they know nothing of it."""
        for name in self._names(node, worker):
            self._paused.pop(name, None)

    def _names(self, node: str, index: int | None = None) -> Sequence[str]:
        if index is not None:
            return [worker_name(node, index)]
        return [name for name in [*self.workers, *self._waiting] if _node_of(name) == node]

    def _forget(self, name: str) -> Worker | None:
        self._waiting.pop(name, None)
        self._paused.pop(name, None)
        self._intakes.pop(name, None)
        return self.workers.pop(name, None)

    def cut(self, node: str, neighbours: Sequence[str]) -> None:
        """Let the node read nothing from exactly these neighbours from now on."""
        self._cut[node] = neighbours
        for name in self._names(node):
            if name in self.workers:
                self.workers[name].isolate(neighbours)

    def slow(self, node: str, links: Sequence[SlowLink]) -> None:
        """Let the node read late from exactly these neighbours from now on."""
        self._slow[node] = links
        for name in self._names(node):
            if name in self._intakes:
                self._intakes[name].slow(links, node, self.topology.names)

    def kill_broker(self, kafka: str, broker: int | None = None) -> None:
        """Take brokers down; a Kafka cluster serves while most of its brokers do."""
        count = self.topology.kafka[kafka].brokers
        down = self._down.setdefault(kafka, {})
        down.update(dict.fromkeys(range(1, count + 1) if broker is None else [broker]))
        self.kafka[kafka].available = 2 * len(down) < count

    def start_broker(
        self,
        kafka: str,
        broker: int | None = None,
        *,
        awaited: bool = True,  # noqa: ARG002 - they answer at once
    ) -> None:
        """Let them answer again."""
        down = self._down.setdefault(kafka, {})
        for number in list(down) if broker is None else [broker]:
            down.pop(number, None)
        self.kafka[kafka].available = 2 * len(down) < self.topology.kafka[kafka].brokers

    def set_clock(self, node: str, off_s: float) -> None:
        """Set the node's wall clock wrong: the one by which its Kafka stamps records."""
        kafka = self.topology.home_of(node, self.kafka)
        kafka.now_ms = lambda: self.clock.ms + int(off_s * 1000)

    def advance(self) -> None:
        """Let the next worker take its turn; without any, let a little time pass."""
        self._wake()
        while self._heap:
            at, draw, name = heapq.heappop(self._heap)
            is_here = name in self.workers or name in self._waiting
            if not is_here or self._due[name] != (at, draw):
                continue
            self.clock.ms = max(self.clock.ms, at)
            if name in self._paused:
                self._stand_still(name)
            elif name in self._waiting:
                if not self._try_to_start(name):
                    self._schedule(name, RETRY_MS)
            else:
                self._turn(name)
            return
        self.clock.ms += REST_MS[1]

    def _turn(self, name: str) -> None:
        """Let a worker take its turn. Kafka's troubles end it, and a new one starts."""
        self.turns += 1
        worker = self.workers[name]
        try:
            has_read = worker.turn(0)
        except TransportDeniedError:
            raise
        except TransportError:
            self.troubles += 1
            worker.abandon()
            self._forget(name)
            self._waiting[name] = None
            self._schedule(name, RETRY_MS)
        else:
            self._schedule(name, 0 if has_read else int(1000 * worker.patience(IDLE_S)))

    def _wake(self) -> None:
        """Wake those who wait for records, where something may have come."""
        changes = {name: kafka.changes for name, kafka in self.kafka.items()}
        if changes == self._changes:
            return
        news = [name for name, count in changes.items() if count != self._changes.get(name)]
        self._changes = changes
        soon = self.clock.ms + REST_MS[1]
        for name, worker in self.workers.items():
            if self._due[name][0] > soon and any(kafka in worker.kafka for kafka in news):
                self._schedule(name)

    def _stand_still(self, name: str) -> None:
        if self.clock.ms - self._paused[name] > MEMBER_TIMEOUT_MS and name in self.workers:
            _crash(self.workers[name])  # it finds out when it goes on
        self._schedule(name)

    def run_until(self, is_done: Callable[[], bool], limit_ms: int) -> bool:
        """Advance until a condition holds; say whether it did within the virtual time."""
        deadline = self.clock.ms + limit_ms
        while not is_done():
            if self.clock.ms > deadline:
                return False
            self.advance()
        return True

    def _schedule(self, name: str, delay_ms: int = 0) -> None:
        """Let a worker take its next turn then, and at no other time."""
        at = self.clock.ms + delay_ms + self._random.randint(*REST_MS)
        due = self._due[name] = at, self._random.random()
        heapq.heappush(self._heap, (*due, name))


def _node_of(name: str) -> str:
    return name.partition("#")[0]


def _crash(worker: Worker) -> None:
    """Let the groups notice that a worker is silent."""
    if isinstance(worker.membership, MemoryMembership):
        worker.membership.crash()
    for member in worker.background.movers.members if worker.background is not None else ():
        if isinstance(member, MemoryConsumer):
            member.crash()


def kafka_of(
    topology: Topology, node: str, kafka: Mapping[str, KafkaCluster]
) -> dict[str, KafkaCluster]:
    """Return the Kafka clusters that a node touches: its own and its neighbours'."""
    nodes = [node, *topology.neighbours(node)]
    names = sorted({topology.nodes[name].kafka: None for name in nodes})
    return {name: kafka[name] for name in names}
