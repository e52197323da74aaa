"""Delivered messages, read from an endpoint's topic. Spec: K8, K9."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mesh.codec.deliveries import delivery_of
from mesh.errors import DecodeError, TransportError
from mesh.model.frames import Delivery, MessageClass
from mesh.model.headers import GAP_HEADER
from mesh.model.topics import TopicNames
from mesh.transport.headers import headers_of
from mesh.transport.port import BEGINNING, KafkaCluster, Reader, Record, TopicPartition

READ_S = 0.2
LIMIT = 1_000
RETRY_MS = 500


@dataclass(frozen=True, slots=True, order=True)
class MessageIdentity:
    """What no two messages share. Spec: K9.

    Attributes:
        topic_id: The broker's id of the ingress topic, 32 hexadecimal digits.
        partition: Its partition.
        generation: 0 unless an operator accepted a truncation.
        offset: Offset there.
    """

    topic_id: str
    partition: int
    generation: int
    offset: int

    def __str__(self) -> str:
        """Return the form that `mesh trace` takes."""
        return f"{self.topic_id}/{self.partition}/{self.generation}/{self.offset}"

    @classmethod
    def parse(cls, text: str) -> MessageIdentity:
        """Return the identity that ``str`` wrote.

        Raises:
            ValueError: The text is none.
        """
        topic_id, partition, generation, offset = text.split("/")
        if len(bytes.fromhex(topic_id)) != 16:
            raise ValueError(f"not a topic id: {topic_id!r}")
        return cls(topic_id, int(partition), int(generation), int(offset))

    @classmethod
    def of(cls, delivery: Delivery) -> MessageIdentity:
        """Return the identity in the header of a delivery."""
        source = delivery.source
        return cls(source.topic_id.hex(), source.partition, delivery.generation, delivery.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedMessage:
    """One delivered message.

    Attributes:
        subject: Mesh address it was published to.
        key: Record key.
        headers: The client's own, in order; names may repeat and values be None.
        payload: Record value; None is a tombstone.
        path: Nodes visited, origin first, this node last.
        identity: What no two messages share.
        message_class: Its class, which it kept on every hop.
        timestamp: The publisher's create time, ms since 1970.
        place: Topic partition of the delivery.
        offset: Offset of the delivery.
    """

    subject: str
    key: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    payload: bytes | None
    path: tuple[str, ...]
    identity: MessageIdentity
    message_class: MessageClass
    timestamp: int
    place: TopicPartition
    offset: int


def received(record: Record) -> ReceivedMessage:
    """Return what a record of an endpoint's topic says.

    Raises:
        DecodeError: The mesh did not write it.
    """
    headers = headers_of(record)
    try:
        delivery = delivery_of(headers)
    except DecodeError as error:
        raise DecodeError(
            f"{record.topic()}[{record.partition()}] offset {record.offset()}: no delivery; "
            f"somebody else wrote to this endpoint: {error}"
        ) from error
    return ReceivedMessage(
        subject=(headers[-2][1] or b"").decode(),
        key=record.key(),
        headers=tuple(headers[:-2]),
        payload=record.value(),
        path=delivery.path,
        identity=MessageIdentity.of(delivery),
        message_class=delivery.message_class,
        timestamp=record.timestamp()[1],
        place=TopicPartition(record.topic(), record.partition()),
        offset=record.offset(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """An announcement that guaranteed messages are lost, in the place where they would stand.

    Attributes:
        node: Who announces it.
        topic, topic_id, partition, generation: Where they stood: an ingress, or an outbox.
        first, last: Their offsets there; `last` is None if nobody can know.
        reason: retention, truncated or recreated.
        path: Nodes that handed the announcement on.

    Spec: DESIGN 6.
    """

    node: str
    topic: str
    topic_id: str
    partition: int
    generation: int
    first: int
    last: int | None
    reason: str
    path: tuple[str, ...]

    def __str__(self) -> str:
        """Return one line for people."""
        end = "an unknown end" if self.last is None else self.last
        return f"lost ({self.reason}): {self.topic}[{self.partition}] {self.first} to {end}"


def announced(record: Record) -> Loss | None:
    """Return the loss that a record of an endpoint's topic announces, or None.

    Raises:
        DecodeError: It says so in words that this version does not know.
    """
    headers = headers_of(record)
    if [name for name, _ in headers] != [GAP_HEADER]:
        return None
    try:
        told = json.loads(headers[0][1] or b"")
        return Loss(**{**told, "path": tuple(told["path"])})
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DecodeError(f"no announcement of a loss: {headers[0][1]!r:.300}") from error


class Deliveries:
    """Reads one endpoint of a node, committed messages only; an iterator without end.

    It may be opened before the endpoint exists: the node makes its topic when it reads the first
    subscription.

    Attributes:
        foreign: Records passed over because the mesh did not write them.
        losses: What was announced as lost among the messages read so far, oldest first.

    Args:
        kafka: Kafka cluster of the node.
        prefix: Of the mesh's topics.
        node: The node.
        endpoint: The endpoint.
        partitions: Of the node's data topics.
        from_beginning: Whether to start at the oldest message still there, or with what comes
            after this object was made.
        now_ms: Monotonic clock.
        pause: Lets time pass while nothing is there yet, in seconds.
    """

    def __init__(
        self,
        kafka: KafkaCluster,
        prefix: str,
        node: str,
        endpoint: str,
        partitions: int,
        *,
        from_beginning: bool,
        now_ms: Callable[[], int],
        pause: Callable[[float], None],
    ) -> None:
        self._kafka = kafka
        self._topic = TopicNames(prefix).endpoint(node, endpoint)
        self._places = [TopicPartition(self._topic, number) for number in range(partitions)]
        self._now_ms = now_ms
        self._pause = pause
        self._reader: Reader | None = None
        self._starts = {} if from_beginning else dict(kafka.admin().ends(self._places))
        self._tried_ms = -RETRY_MS
        self._is_closed = False
        self.foreign = 0
        self.losses: list[Loss] = []

    def read(self, timeout_s: float) -> Sequence[ReceivedMessage]:
        """Return messages as soon as there are some, or none after the timeout.

        Raises:
            TransportError: Messages were deleted before they could be read.
        """
        deadline = self._now_ms() + int(timeout_s * 1000)
        while True:
            reader = self._reader or self._open()
            if reader is not None:
                left_s = max(0.0, (deadline - self._now_ms()) / 1000)
                if found := self._sifted(reader.read(min(READ_S, left_s), LIMIT)):
                    return found
                self._check(reader)
            if self._now_ms() >= deadline:
                return ()
            self._pause(0 if reader is not None else READ_S)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Yield messages until `close`."""
        while not self._is_closed:
            yield from self.read(READ_S)

    def _open(self) -> Reader | None:
        """Return the reader once the endpoint's topic exists."""
        now = self._now_ms()
        if now - self._tried_ms < RETRY_MS:
            return None
        self._tried_ms = now
        if self._topic not in self._kafka.admin().describe([self._topic]):
            return None
        self._reader = self._kafka.reader("deliveries")
        self._reader.assign({place: self._starts.get(place, BEGINNING) for place in self._places})
        return self._reader

    def _sifted(self, records: Sequence[Record]) -> Sequence[ReceivedMessage]:
        found: list[ReceivedMessage] = []
        for record in records:
            try:
                if (loss := announced(record)) is not None:
                    self.losses.append(loss)
                    continue
                found.append(received(record))
            except DecodeError:
                self.foreign += 1
        return found

    def _check(self, reader: Reader) -> None:
        if lost := reader.lost():
            raise TransportError(
                f"{lost[0].topic}[{lost[0].partition}]: messages were deleted before they were "
                "read; start again from the beginning"
            )

    def close(self) -> None:
        """Release the reader; iterating ends."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._reader is not None:
            self._reader.close()
