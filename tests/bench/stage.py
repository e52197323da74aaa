"""The stage: one real Kafka broker, five nodes as real worker processes, clients.

a - b | c - d, and b | s: node, gateway, gateway, node, and a third gateway for what b splits.
Ingress at a, transit at b, delivery at c. What a node reads of its neighbour is held back by its
drill file until it is its turn, so that each drains with nobody else at work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from mesh.config.legal import load_legal_topology
from mesh.errors import StartError, TransportUnavailableError
from mesh.local.brokers import STEADY_JVM, EmbeddedKafka, KafkaClusters
from mesh.local.embedded import start_together
from mesh.local.fleet import Fleet
from mesh.local.jars import KafkaSoftware, Progress
from mesh.local.processes import Process
from mesh.model.control import EndpointKind, Subscription
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.operate.interest.propagation import laggards
from mesh.transport.kafka import RealKafka
from mesh.transport.port import TopicPartition, TopicSpec
from mesh.view.mesh_view import MeshView
from mesh.wire.keys import subscription_key
from mesh.wire.subscriptions import encode_subscription
from mesh.worker.process.clock import MonotonicClock
from tests.bench.meter import OTHER_CORE, pin

PARTITIONS = 4
HEAP_MB = 768
SEGMENT_BYTES = 16 << 20
"""Records are deleted by whole segments: smaller than what a round writes to a partition."""
KEPT = 100
"""Records at the end of each partition that stay: whoever reads it may stand before a marker."""
START_S = 60.0
NODES = ("a", "b", "c", "d", "s")
BEHIND = {"b": "a", "c": "b", "d": "c", "s": "b"}
"""The neighbour of which each node reads what it is measured with."""

TOPOLOGY = """\
apiVersion: mesh/v1
kind: Mesh
metadata: {name: bench}
spec:
  kafka: {here: {}}
  nodes: {a: {kafka: here}, b: {kafka: here}, c: {kafka: here}, d: {kafka: here}, s: {kafka: here}}
  zones:
    NEAR: {kind: cluster, nodes: [a, b]}
    FAR: {kind: cluster, nodes: [c, d]}
    GATES: {kind: external, links: [[b, c], [b, s]]}
"""
PLAIN = {"message.timestamp.type": "LogAppendTime", "retention.ms": "-1"}


@dataclass(frozen=True, slots=True)
class Sink:
    """An endpoint: its name and node, its filter and class; first levels keep ways apart."""

    name: str
    node: str
    filter: str
    message_class: MessageClass = MessageClass.GUARANTEED

    @property
    def prefix(self) -> str:
        """Return how the subjects that it takes begin."""
        return self.filter.removesuffix(">")


SINKS = (
    Sink("sink-g", "c", "g/>"),
    Sink("sink-d", "c", "d/>", MessageClass.DIRECT),
    Sink("half-0", "c", "half/0/>"),
    Sink("half-1", "s", "half/1/>"),
    Sink("all", "c", "tenth/>"),
    Sink("tenth", "s", "tenth/0/>"),
    Sink("near-g", "b", "near/>"),
    Sink("near-d", "b", "near-d/>", MessageClass.DIRECT),
    Sink("far-g", "d", "far/>"),
)


class Stage:
    """Everything that runs while it is measured; a context manager that always stops it."""

    def __init__(
        self,
        directory: Path,
        software: KafkaSoftware,
        progress: Progress,
        topology: str = TOPOLOGY,
        sinks: Sequence[Sink] = SINKS,
    ) -> None:
        self.directory = directory
        self._sinks = sinks
        self.names = TopicNames()
        self.clock = MonotonicClock()
        self._progress = progress
        file = directory / "bench.yaml"
        file.write_text(topology, encoding="utf-8")
        settings = {
            "log.segment.bytes": str(SEGMENT_BYTES),
            "log.retention.check.interval.ms": "5000",
            "log.segment.delete.delay.ms": "1000",
        }
        self.broker = EmbeddedKafka(
            "here",
            directory / "kafka",
            software,
            settings=settings,
            jvm=STEADY_JVM,
            heap_mb=HEAP_MB,
        )
        start_together([self.broker])
        self._running = KafkaClusters({"here": self.broker})
        self._pin(list(self.broker.pids))
        try:
            self._await_transactions()
            self.fleet = Fleet.start(
                load_legal_topology(file),
                file,
                directory,
                addresses={"here": self.bootstrap},
                progress=progress,
            )
        except BaseException:
            self._running.stop()
            raise
        self.kafka: RealKafka = self.fleet.kafka("here", "bench")

    @property
    def bootstrap(self) -> str:
        """Return the broker's address."""
        return self.broker.bootstrap_servers

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop workers, then the broker; tell of one that is gone by itself."""
        for process in self.broker.processes:
            if not process.is_alive():
                last = process.log.read_text("utf-8", "replace").splitlines()[-5:]
                self._progress("\n".join([f"the broker ended with {process.returncode}", *last]))
        try:
            self.kafka.close()
            self.fleet.stop()
        finally:
            self._running.stop()

    def _await_transactions(self) -> None:
        """Wait until the broker has the log of its transactions: it makes that when first asked.

        On one core that others use too this takes longer than who is in a hurry waits.
        """
        deadline_s = time.monotonic() + START_S
        kafka = RealKafka("here", {"bootstrap.servers": self.bootstrap}, client_prefix="bench")
        try:
            while True:
                try:
                    kafka.writer("first", "bench-first").close()
                except TransportUnavailableError:
                    if time.monotonic() > deadline_s:
                        raise
                else:
                    return
        finally:
            kafka.close()

    def _pin(self, pids: Sequence[int]) -> None:
        for pid in pids:
            pin(pid, OTHER_CORE)

    def create(self, topic: str) -> None:
        """Create a plain topic like the mesh's own."""
        self.kafka.admin().create([TopicSpec(name=topic, partitions=PARTITIONS, settings=PLAIN)])

    def start_nodes(self) -> Mapping[str, float]:
        """Start all nodes, subscribe, settle; return the seconds and CPU that a start took."""
        began_s = time.monotonic()
        nodes = list(self.fleet.topology.nodes)
        for node in nodes:
            self.fleet.start_node(node)
        ready = [self.fleet.ready_file(node) for node in nodes]
        wait_for(self.fleet, lambda: all(file.exists() for file in ready), "ready")
        took = {
            "wall_s": time.monotonic() - began_s,
            "cpu_s": sum(self.worker(node).cpu_s() for node in nodes) / len(nodes),
        }
        self._subscribe()
        return took

    def worker(self, node: str) -> Process:
        """Return the worker process of a node."""
        return self.fleet.workers[node][0]

    def _subscribe(self) -> None:
        writer = self.kafka.writer("clients")
        for sink in self._sinks:
            subscription = Subscription(EndpointKind.CHANNEL, sink.message_class)
            key = subscription_key(sink.name, sink.filter)
            writer.produce(self.names.clients(sink.node), encode_subscription(subscription), key, 0)
        if writer.flush():
            raise StartError("the subscriptions were not acknowledged")
        writer.close()
        view = MeshView(self.fleet.topology, {"here": self.kafka}, self.clock.now_ms)
        view.refresh()
        wanted = {node: seen.clients_offset for node, seen in view.nodes.items()}
        epochs = {node: seen.epoch for node, seen in view.nodes.items()}

        def settled() -> bool:
            view.refresh()
            left = laggards(self.fleet.topology, view, wanted, epochs, lambda _a, _b: False)
            return next(left, None) is None

        wait_for(self.fleet, settled, "settled")
        view.close()

    def ends(self, topic: str) -> Mapping[TopicPartition, int]:
        """Return the high watermarks of a topic with `PARTITIONS` partitions."""
        places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        return self.kafka.admin().ends(places)

    def ends_at_rest(self, topic: str) -> Mapping[TopicPartition, int]:
        """Return the ends of a topic to which nobody writes, once all that was written is decided.

        A commit is answered before its markers are written: committed reading ends before them.
        """
        ends: Mapping[TopicPartition, int] = {}

        def is_decided() -> bool:
            nonlocal ends
            ends = self.ends(topic)
            return ends == self.kafka.admin().stable_ends(list(ends))

        wait_for(self.fleet, is_decided, f"at rest: {topic}", pause_s=0.02)
        return ends

    def forget(self) -> None:
        """Delete what everybody has read: logs are in memory, and each round writes gigabytes."""
        admin = self.kafka.admin()
        settings = admin.settings([one for one in admin.named("") if not one.startswith("__")])
        found = admin.describe(
            [topic for topic, of in settings.items() if of.get("cleanup.policy") == "delete"]
        )
        places = [
            TopicPartition(topic, index)
            for topic, info in found.items()
            for index in range(info.partitions)
        ]
        ends, starts = admin.ends(places), admin.starts(places)
        below = {place: end - KEPT for place, end in ends.items()}
        admin.delete_before({place: at for place, at in below.items() if at > starts[place]})

    def hold(self, *nodes: str) -> None:
        """Have nodes read nothing of whoever is before them."""
        for node in nodes:
            self.fleet.cut(node, [BEHIND[node]])

    def free(self, *nodes: str) -> None:
        """Have nodes read again."""
        for node in nodes:
            self.fleet.cut(node, [])


def wait_for(
    fleet: Fleet,
    is_done: Callable[[], bool],
    what: str,
    *,
    limit_s: float = START_S,
    pause_s: float = 0.1,
    ended: Process | None = None,
) -> float:
    """Ask until something is so.

    Args:
        fleet: Whose workers must live meanwhile.
        is_done: Asked again and again.
        what: What is waited for, in the message if it does not come.
        limit_s: How long, in seconds.
        pause_s: Between two questions.
        ended: A worker that has ended on purpose.

    Returns:
        When it was so, on the monotonic clock.

    Raises:
        StartError: It did not come, or a worker ended.
    """
    deadline_s = time.monotonic() + limit_s
    while not is_done():
        refuse_fallen(fleet, ended)
        if time.monotonic() > deadline_s:
            raise StartError(f"not {what} after {limit_s:.0f} s")
        time.sleep(pause_s)
    return time.monotonic()


def refuse_fallen(fleet: Fleet, ended: Process | None = None) -> None:
    """Raise StartError if a worker has ended, other than one that ended on purpose."""
    fallen = [process for process in fleet.fallen() if process is not ended]
    if fallen:
        raise StartError(f"{fallen[0].name} ended: {fallen[0].log_tail()}")


def last_words(fleet: Fleet, node: str, lines_max: int = 15) -> str:
    """Return the newest lines of a node's log, for an error message."""
    return "\n".join(process.log_tail(lines_max) for process in fleet.workers.get(node, ()))
