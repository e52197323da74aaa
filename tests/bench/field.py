"""A mesh made to measure, for growth curves: one Kafka cluster, a chain or a star of nodes.

Node `n0` takes what is published. In a chain the endpoints are at the last node, in a star each
neighbour of `n0` has one. Every worker is a process, every broker a JVM.
"""

from __future__ import annotations

import itertools
import random
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import Producer

from mesh.client import connect
from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import write_topology
from mesh.errors import StartError
from mesh.local.fleet import Fleet
from mesh.local.jars import KafkaSoftware, Progress
from mesh.local.processes import Process
from mesh.model.control import Subscription
from mesh.model.frames import MessageClass
from mesh.model.record_headers import SUBJECT_HEADER
from mesh.model.topics import TopicNames
from mesh.transport.port import TopicPartition
from mesh.wire.keys import subscription_key
from mesh.wire.subscriptions import encode_subscription
from mesh.worker.process.injected_faults import InjectedFaults, SlowLink
from tests.bench.contenders import DEADLINE_S, wait_still, wait_until
from tests.bench.counting import count_numbers
from tests.bench.meter import OTHER_CORE, OWN_CORE, pin
from tests.bench.stage import wait_for

FIRST = "n0"
ENDPOINT = "e"
LEVEL = "hot"
DEPTH = 14
"""Levels of a hostile filter, each `x` or `*`."""

POOL = 1_024
STAMP = struct.Struct(">Q")
COMMIT_S = 120.0
START_S = 90.0
FILTERS_S = 500.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a mesh is made of, and what it is fed with.

    Attributes:
        nodes: Length of the chain.
        links: Neighbours of the first node; 0 for a chain.
        is_split: Each neighbour wants a part of its own, instead of everything.
        endpoints: Of the last node, each takes everything.
        partitions: Of each data topic.
        lanes, workers: Of each node.
        filters: Of the endpoint, beside the one that takes everything.
        is_hostile: They are of mixed `*` and all match, instead of none.
        subjects: Distinct ones; 0 for a new one with each message.
        headers: Of clients, beside the subject.
        payload: Bytes.
        compression: Of all that nodes write; payloads compress then.
        brokers: Each topic is on up to three of them.
        round_trip_ms: How late a node reads of its neighbour.
        churn: Filters of the endpoint that come or go, a second.
        rate: Messages offered a second; 0 for all at once.
    """

    nodes: int = 2
    links: int = 0
    is_split: bool = False
    endpoints: int = 1
    partitions: int = 4
    lanes: int = 1
    workers: int = 1
    filters: int = 0
    is_hostile: bool = False
    subjects: int = 300
    headers: int = 0
    payload: int = 100
    compression: str = ""
    brokers: int = 1
    round_trip_ms: int = 0
    churn: int = 0
    rate: int = 0

    @property
    def names(self) -> Sequence[str]:
        """Return the nodes."""
        return [f"n{index}" for index in range(1 + self.links if self.links else self.nodes)]

    @property
    def endings(self) -> Mapping[str, Sequence[str]]:
        """Return the endpoints of each node that has any, with the filter that attracts all."""
        if self.links:
            return {node: [ENDPOINT] for node in self.names[1:]}
        return {self.names[-1]: [f"{ENDPOINT}{index}" for index in range(self.endpoints)]}

    def spec(self) -> Mapping[str, object]:
        """Return the topology."""
        names = self.names
        kafka: dict[str, object] = {"brokers": self.brokers}
        if self.compression:
            kafka["compression.type"] = self.compression
        node = {"kafka": "here", "partitions": self.partitions, "lanes": self.lanes}
        links = [[FIRST, name] for name in names[1:]]
        if not self.links:
            links = [[before, name] for before, name in itertools.pairwise(names)]
        zones = {"Z": {"kind": "multi-hop", "links": links}} if links else {}
        return {"kafka": {"here": kafka}, "nodes": dict.fromkeys(names, node), "zones": zones}

    def level(self, number: int) -> str:
        """Return how the subject of a message begins: what attracts it."""
        if self.is_hostile:
            return "/".join(["x"] * DEPTH)
        return f"{LEVEL}/{number % self.links}" if self.is_split else LEVEL

    def wanted(self, node: str) -> str:
        """Return the filter that attracts to a node's endpoints what they are to take."""
        if self.is_split:
            return f"{LEVEL}/{int(node[1:]) - 1}/>"
        return ">"

    def more_filters(self) -> Sequence[str]:
        """Return the other filters of the first endpoint."""
        if self.is_hostile:
            bits = [[(index >> bit) & 1 for bit in range(DEPTH)] for index in range(self.filters)]
            return ["/".join("*" if bit else "x" for bit in one) + "/*" for one in bits]
        return [f"acme/site-{index % 997}/line-{index}/*" for index in range(self.filters)]


class Field:
    """The mesh while it is measured; a context manager that always stops it."""

    def __init__(
        self, setup: Setup, directory: Path, software: KafkaSoftware, progress: Progress
    ) -> None:
        self.setup = setup
        self._round = 0
        topology = topology_from_mapping(setup.spec())
        file = directory / "mesh.yaml"
        write_topology(topology, file)
        self.fleet = Fleet.start(topology, file, directory, software=software, progress=progress)
        self.names = TopicNames(topology.prefix)
        self.kafka = self.fleet.kafka("here", "bench")
        self.brokers = self.fleet.brokers["here"]
        drawn = random.Random(7)
        unit = b'{"site": "north", "line": 12, "state": "running", "value": 17.25}, '
        self._tails = [
            (unit * (setup.payload // len(unit) + 1))[: setup.payload - STAMP.size]
            if setup.compression
            else drawn.randbytes(setup.payload - STAMP.size)
            for _ in range(POOL if setup.payload < 10_000 else 16)
        ]

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop workers, then brokers."""
        self.kafka.close()
        self.fleet.stop()

    def start(self) -> None:
        """Start the nodes; returns when the first one knows of every subscription."""
        setup = self.setup
        for pid in self.brokers.pids:
            pin(pid, OTHER_CORE)
        for node in setup.names:
            self.fleet.start_node(node, setup.workers)
        files = [self.fleet.ready_file(n, i) for n in setup.names for i in range(setup.workers)]
        wait_for(self.fleet, lambda: all(file.exists() for file in files), "ready", limit_s=START_S)
        for node, endpoints in setup.endings.items():
            self._write_filters(node, endpoints[0], setup.more_filters())
            with connect(self.fleet.topology, node) as client:
                for endpoint in endpoints:
                    version = client.subscribe(endpoint, setup.wanted(node))
                client.wait(version, timeout_s=FILTERS_S)
        if setup.round_trip_ms:
            for before, node in zip(setup.names, setup.names[1:], strict=False):
                slow = SlowLink(before, setup.round_trip_ms, 0.0)
                self.fleet.inject(node, InjectedFaults(slow=(slow,)))
        for process in self.workers():
            pin(process.pid, OWN_CORE if setup.workers == 1 else process.pid % 2)

    def _write_filters(self, node: str, endpoint: str, filters: Sequence[str]) -> None:
        writer = self.kafka.writer("bench-filters")
        value = encode_subscription(Subscription())
        for one in filters:
            writer.produce(self.names.clients(node), value, subscription_key(endpoint, one), 0)
        if writer.flush():
            raise StartError("Kafka did not take all subscriptions")
        writer.close()

    def workers(self, *nodes: str) -> Sequence[Process]:
        """Return the workers of these nodes, or of all."""
        return [one for node in nodes or self.setup.names for one in self.fleet.workers[node]]

    def places(self, topic: str) -> Sequence[TopicPartition]:
        """Return the partitions of a data topic."""
        return [TopicPartition(topic, index) for index in range(self.setup.partitions)]

    def begins(self) -> Mapping[str, Mapping[TopicPartition, int]]:
        """Return the present ends of the endpoints' topics, by topic."""
        return {
            topic: self.kafka.admin().ends(self.places(topic))
            for node, endpoints in self.setup.endings.items()
            for topic in (self.names.endpoint(node, endpoint) for endpoint in endpoints)
        }

    def publish(
        self, count: int, meanwhile: Callable[[], None] = lambda: None
    ) -> Callable[[], None]:
        """Write messages; all at once they appear when what is returned is called.

        Args:
            count: How many.
            meanwhile: Called again and again while messages are offered at a rate.
        """
        self._round += 1
        setup = self.setup
        options: dict[str, object] = {
            "bootstrap.servers": self.brokers.bootstrap_servers,
            "linger.ms": 1 if setup.rate else 20,
            "message.max.bytes": 2_000_000,
            "delivery.report.only.error": True,
            "enable.metrics.push": False,
            "log_level": 2,
        }
        if setup.rate:
            producer = Producer(options)
            return lambda: self._offer(producer, count, meanwhile)
        producer = Producer({**options, "transactional.id": "bench-field"})
        producer.init_transactions(30)
        producer.begin_transaction()
        for number in range(count):
            self._produce(producer, number)
        producer.flush(COMMIT_S)
        return lambda: producer.commit_transaction(COMMIT_S)

    def _offer(self, producer: Producer, count: int, meanwhile: Callable[[], None]) -> None:
        began_s = time.monotonic()
        done = 0
        while done < count:
            due = min(count, int((time.monotonic() - began_s) * self.setup.rate))
            for number in range(done, due):
                self._produce(producer, number)
            done = due
            producer.poll(0.005)
            meanwhile()
        producer.flush(COMMIT_S)

    def _produce(self, producer: Producer, number: int) -> None:
        setup = self.setup
        line = number % setup.subjects if setup.subjects else f"{self._round}-{number}"
        # Not the number itself where it decides who wants the message: all lines go to everybody.
        subject = f"{setup.level(number // setup.partitions)}/line-{line}"
        headers: list[tuple[str, str | bytes | None]] = [(SUBJECT_HEADER, subject.encode())]
        headers += [(f"header-{index}", b"some value") for index in range(setup.headers)]
        topic = self.names.ingress(FIRST, MessageClass.GUARANTEED)
        value = STAMP.pack(number) + self._tails[number % len(self._tails)]
        while True:
            try:
                key, partition = b"%010d" % (number % 997), number % setup.partitions
                producer.produce(topic, value, key, partition, headers=headers)
            except BufferError:
                producer.poll(0.05)
                continue
            return

    def wait(self, count: int, begins: Mapping[str, Mapping[TopicPartition, int]]) -> float:
        """Wait until all endpoints have what they should; return when the last one grew."""
        shares = {topic: sum(self.expected(topic)(n) for n in range(count)) for topic in begins}

        def grown() -> int:
            return sum(sum(self.kafka.admin().ends(list(at)).values()) for at in begins.values())

        target = grown_before(begins) + sum(shares.values())
        wait_until(lambda: grown() >= target, self.workers(), DEADLINE_S)
        return wait_still(grown)

    def expected(self, topic: str) -> Callable[[int], bool]:
        """Return what tells whether the message of a number belongs into an endpoint's topic."""
        if not self.setup.is_split:
            return lambda _number: True
        setup = self.setup
        [part] = [
            setup.names.index(node) - 1
            for node in setup.endings
            if self.names.endpoint(node, ENDPOINT) == topic
        ]
        return lambda number: number // setup.partitions % setup.links == part

    def check(self, count: int, begins: Mapping[str, Mapping[TopicPartition, int]]) -> None:
        """Make sure that every message is in every endpoint that wants it, once.

        Raises:
            StartError: It is not.
        """
        for topic, at in begins.items():
            found = count_numbers(self.kafka, at, self.expected(topic), count)
            if not found.is_whole:
                raise StartError(f"{topic}: of {count} messages {found}")


def grown_before(begins: Mapping[str, Mapping[TopicPartition, int]]) -> int:
    """Return how much was in all topics together."""
    return sum(sum(at.values()) for at in begins.values())
