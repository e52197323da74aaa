"""Two nodes on a Kafka cluster each: a publishes, an endpoint of b takes everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from mesh.client import connect
from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import write_topology
from mesh.local.brokers import STEADY_JVM, EmbeddedKafka, KafkaClusters
from mesh.local.embedded import start_together
from mesh.local.fleet import Fleet
from mesh.local.jars import KafkaSoftware, Progress
from mesh.local.processes import Process
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.transport.kafka import RealKafka
from mesh.transport.port import TopicPartition
from mesh.worker.process.clock import MonotonicClock
from tests.bench.stage import HEAP_MB, PARTITIONS, wait_for

KAFKA = {"a": "near", "b": "far"}
"""Kafka cluster of each node."""

ENDPOINT = "e"


class Pair:
    """Brokers and workers while they are measured; a context manager that always stops them.

    Args:
        directory: For logs and data.
        software: Java and Kafka's jars.
        progress: Told what is going on.
        lanes: Of b.
        settings: Broker settings of both Kafka clusters, which win over ours.
    """

    def __init__(
        self,
        directory: Path,
        software: KafkaSoftware,
        progress: Progress,
        *,
        lanes: int = 1,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.clock = MonotonicClock()
        self._progress = progress
        self._brokers = KafkaClusters(
            {
                name: EmbeddedKafka(
                    name,
                    directory / "kafka" / name,
                    software,
                    settings=settings,
                    jvm=STEADY_JVM,
                    heap_mb=HEAP_MB,
                )
                for name in KAFKA.values()
            }
        )
        progress(f"starting {len(self._brokers)} Kafka clusters")
        start_together(list(self._brokers.values()))
        try:
            self.fleet = self._fleet(directory, lanes)
        except BaseException:
            self._brokers.stop()
            raise
        self.names = TopicNames(self.fleet.topology.prefix)
        self.kafka: Mapping[str, RealKafka] = {
            node: self.fleet.kafka(name, "bench") for node, name in KAFKA.items()
        }

    def _fleet(self, directory: Path, lanes: int) -> Fleet:
        kafka = {
            name: {"bootstrap.servers": broker.bootstrap_servers}
            for name, broker in self._brokers.items()
        }
        nodes = {
            "a": {"kafka": KAFKA["a"], "partitions": PARTITIONS},
            "b": {"kafka": KAFKA["b"], "partitions": PARTITIONS, "lanes": lanes},
        }
        zones = {"LINK": {"kind": "one-hop", "nodes": list(KAFKA)}}
        topology = topology_from_mapping({"kafka": kafka, "nodes": nodes, "zones": zones})
        file = directory / "mesh.yaml"
        write_topology(topology, file)
        return Fleet.start(topology, file, directory, progress=self._progress)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop workers, then brokers; after an error tell the workers' last words."""
        try:
            if error is not None:
                for process in self._workers():
                    self._progress(f"{process.name}: {process.log_tail(20)}")
            for kafka in self.kafka.values():
                kafka.close()
            self.fleet.stop()
        finally:
            self._brokers.stop()

    def _workers(self) -> Sequence[Process]:
        return [process for running in self.fleet.workers.values() for process in running]

    def bootstrap(self, node: str) -> str:
        """Return the address of a node's Kafka cluster."""
        return self._brokers[KAFKA[node]].bootstrap_servers

    @property
    def ingress(self) -> str:
        """Return the topic where the load is published."""
        return self.names.ingress("a", MessageClass.GUARANTEED)

    @property
    def outbox(self) -> str:
        """Return the topic in which it waits for b."""
        return self.names.outbox("a", "b", MessageClass.GUARANTEED)

    @property
    def endpoint(self) -> str:
        """Return the topic where it is delivered."""
        return self.names.endpoint("b", ENDPOINT)

    def start(self, *, workers: int = 1) -> None:
        """Start a, and b with so many workers; returns when b's subscription is known at a."""
        self.fleet.start_node("a")
        self.start_b(workers)
        with connect(self.fleet.topology, "b") as client:
            client.wait(client.subscribe(ENDPOINT, ">"))

    def start_b(self, workers: int = 1) -> float:
        """Start b; return the moment when all its workers serve, monotonic seconds."""
        self.fleet.start_node("b", workers)
        ready = [self.fleet.ready_file("b", index) for index in range(workers)]
        return wait_for(self.fleet, lambda: all(file.exists() for file in ready), "ready")

    def ends(self, node: str, topic: str) -> Mapping[TopicPartition, int]:
        """Return how far a reader of committed records gets in a topic of a node."""
        return self.kafka[node].admin().stable_ends(places_of(topic))

    def ends_at_rest(self, node: str, topic: str) -> Mapping[TopicPartition, int]:
        """Return the ends of a topic to which nobody writes, once all that was written is decided.

        A commit is answered before its markers are written: committed reading ends before them.
        """
        ends: Mapping[TopicPartition, int] = {}

        def is_decided() -> bool:
            nonlocal ends
            ends = self.kafka[node].admin().ends(places_of(topic))
            return ends == self.ends(node, topic)

        wait_for(self.fleet, is_decided, f"at rest: {topic}", pause_s=0.02)
        return ends

    def pids(self) -> Mapping[str, Sequence[int]]:
        """Return the process ids of the workers by node, and of the brokers."""
        workers = self.fleet.workers.items()
        found = {node: [process.pid for process in running] for node, running in workers}
        return {**found, "kafka": [pid for one in self._brokers.values() for pid in one.pids]}


def places_of(topic: str) -> Sequence[TopicPartition]:
    """Return the partitions of a data topic."""
    return [TopicPartition(topic, index) for index in range(PARTITIONS)]
