"""Clients under which a storm breaks: publishers that remember what they were told, and a watch.

Each is called again and again, in a thread of its own on real brokers, and does what is due.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from mesh.errors import TransportError, TransportFencedError, TransportUnknownError
from mesh.lab.checker.history import Publish, PublishOutcome
from mesh.model.record_headers import SUBJECT_HEADER
from mesh.transport.following import Follower
from mesh.transport.port import KafkaCluster, TopicPartition, Writer

KEYS: Sequence[str | None] = ("k0", "k1", "k2", "k3", "k4", "k5", "k6", None)
NUMBER_HEADER = "number"
SUBJECTS = 5
"""Of each publisher: `storm/<node>/0` and so on."""

IN_TRANSACTION = 3
ABORTED = 1 / 3
"""Share of publishers' transactions that are aborted on purpose."""

ARREARS_MS = 1_000
"""What could not be written while nobody answered is made up for so far back."""


@dataclass(slots=True)
class Publisher:
    """Writes steadily with keys at one node, whether or not the node runs.

    Attributes:
        name: Begins every payload; no two publishers share one.
        node, topic, partitions: Where it writes.
        kafka: Kafka cluster of the node.
        rate: Messages per second.
        guaranteed: Class of its messages.
        transactional_id: To write in transactions of three, or None.
        now_ms, seed: Clock, and what decides keys, subjects and aborts.
        published: What it was told of every message.
    """

    name: str
    node: str
    topic: str
    partitions: int
    kafka: KafkaCluster
    rate: float
    guaranteed: bool
    transactional_id: str | None
    now_ms: Callable[[], int]
    seed: int
    published: list[Publish] = field(default_factory=list)
    _random: random.Random = field(init=False)
    _writer: Writer | None = None
    _due_ms: float = 0.0
    _transactions: int = 0

    def __post_init__(self) -> None:
        """Begin with the first message due at once."""
        self._random = random.Random(f"{self.seed} {self.name}")
        self._due_ms = float(self.now_ms())

    def publish_due(self) -> None:
        """Write what is due and learn what became of it; nothing while no broker answers."""
        now = self.now_ms()
        self._due_ms = max(self._due_ms, now - ARREARS_MS)
        count = 0
        while self._due_ms <= now:
            self._due_ms += 1000 / self.rate
            count += 1
        if not count:
            return
        if self.transactional_id is None:
            self._batch(count, None)
            return
        for _ in range(count // IN_TRANSACTION + 1):
            self._transactions += 1
            self._due_ms += (IN_TRANSACTION - 1) * 1000 / self.rate
            self._batch(IN_TRANSACTION, self._transactions)

    def _batch(self, count: int, transaction: int | None) -> None:
        try:
            writer = self._open()
        except TransportError:
            return  # nothing was handed over
        first = len(self.published)
        messages = [self._message(first + index, transaction) for index in range(count)]
        is_aborted = transaction is not None and self._random.random() < ABORTED
        try:
            outcome = self._write(writer, messages, is_aborted=is_aborted)
        except TransportError as error:
            unclear = isinstance(error, TransportUnknownError | TransportFencedError)
            is_surely_not = transaction is not None and (is_aborted or not unclear)
            outcome = PublishOutcome.FAILED if is_surely_not else PublishOutcome.UNKNOWN
            self.close()
        ended_ms = self.now_ms()
        self.published += [
            replace(message, outcome=outcome, ended_ms=ended_ms) for message in messages
        ]

    def _open(self) -> Writer:
        if self._writer is None:
            self._writer = self.kafka.writer(f"storm-{self.name}", self.transactional_id)
        return self._writer

    def _message(self, sequence: int, transaction: int | None) -> Publish:
        key = self._random.choice(KEYS)
        partition = sequence if key is None else zlib.crc32(key.encode())
        now = self.now_ms()
        return Publish(
            publisher=self.name,
            sequence=sequence,
            node=self.node,
            topic=self.topic,
            partition=partition % self.partitions,
            subject=f"storm/{self.node}/{self._random.randrange(SUBJECTS)}",
            key=key,
            headers=f"{NUMBER_HEADER}={sequence}",
            guaranteed=self.guaranteed,
            outcome=PublishOutcome.UNKNOWN,
            invoked_ms=now,
            ended_ms=now,
            transaction=transaction,
        )

    def _write(
        self, writer: Writer, messages: Sequence[Publish], *, is_aborted: bool
    ) -> PublishOutcome:
        """Write messages; return what is known of all of them.

        Raises:
            TransportError: The writer is of no use any more.
        """
        if self.transactional_id is not None:
            writer.begin()
        for message in messages:
            writer.produce(
                message.topic,
                message.payload.encode(),
                None if message.key is None else message.key.encode(),
                message.partition,
                headers=[
                    (NUMBER_HEADER, str(message.sequence).encode()),
                    (SUBJECT_HEADER, message.subject.encode()),
                ],
            )
        if self.transactional_id is None:
            # A flush says how many failed, not which, nor whether a broker has them all the same.
            return PublishOutcome.UNKNOWN if writer.flush() else PublishOutcome.OK
        if is_aborted:
            writer.flush()
            writer.abort()
            return PublishOutcome.FAILED
        writer.commit()
        return PublishOutcome.OK

    def close(self) -> None:
        """Release the writer."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


@dataclass(slots=True)
class SilenceWatch:
    """Looks at endpoints of one Kafka cluster: how long nothing came to one.

    Attributes:
        kafka: The Kafka cluster.
        topics: Endpoint topics, with their partitions.
        now_ms: Clock.
        longest_ms: Longest time between two records of an endpoint so far.
    """

    kafka: KafkaCluster
    topics: dict[str, int]
    now_ms: Callable[[], int]
    longest_ms: int = 0
    _follower: Follower | None = None
    _newest_ms: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin to count now."""
        self._newest_ms = dict.fromkeys(self.topics, self.now_ms())

    def look(self) -> None:
        """Read what is new; nothing while no broker answers."""
        try:
            found = {record.topic(): None for record in self._open().poll()}
        except TransportError:
            found = {}
        now = self.now_ms()
        for topic, newest in self._newest_ms.items():
            self.longest_ms = max(self.longest_ms, now - newest)
            if topic in found:
                self._newest_ms[topic] = now

    def _open(self) -> Follower:
        if self._follower is None:
            self._follower = Follower(self.kafka, "storm-watch", self.now_ms)
            for topic, count in self.topics.items():
                self._follower.add(TopicPartition.all_of(topic, count))
        return self._follower

    def close(self) -> None:
        """Release the reader."""
        if self._follower is not None:
            self._follower.close()
