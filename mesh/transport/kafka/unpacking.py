"""Batches that the client library cannot unpack, and how readers continue after them.

Brokers judge a batch by its compressed size, and the client library (as of 2.16) unpacks at most
`receive.message.max.bytes` of one, 100 MB: hundreds of millions of zeros are a few kB on the wire.
It reports where such a batch begins, fetches it again and again, and never returns anything after
it. So each of its records is returned as one of which only the position is known: readers treat it
like any other unreadable record. Spec: R12.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Place

from mesh.errors import TransportError, TransportUnavailableError
from mesh.transport.headers import UNREADABLE
from mesh.transport.kafka.faults import Site, error_of, transport_error
from mesh.transport.kafka.health import told_offset
from mesh.transport.kafka.settings import Settings
from mesh.transport.port import TopicPartition

UNPACKABLE = KafkaError._BAD_COMPRESSION
"""The error for such a batch. A wrong checksum is another matter: another broker's copy may be as
it was written."""

ANSWER_WITHIN_S = 5.0
SLICE_S = 0.1
"""How long closing may take while the end of a batch is sought."""

_NO_TIME = (0, -1)

IsClosed = Callable[[], bool]
Find = Callable[[TopicPartition, int, IsClosed], int]
"""Finds the offset after the batch that contains this one; see `find_end`."""


class PackedRecord:
    """A record of which only the position is known: the methods of the port."""

    __slots__ = ("_offset", "_place")

    def __init__(self, place: TopicPartition, offset: int) -> None:
        self._place, self._offset = place, offset

    def topic(self) -> str:
        """Return the topic's name."""
        return self._place.topic

    def partition(self) -> int:
        """Return the partition."""
        return self._place.partition

    def offset(self) -> int:
        """Return the offset."""
        return self._offset

    def key(self) -> None:
        """Return no key."""

    def value(self) -> None:
        """Return no value."""

    def headers(self) -> list[tuple[str, bytes | None]]:
        """Return what stands for headers that cannot be read."""
        return cast("list[tuple[str, bytes | None]]", UNREADABLE)

    def timestamp(self) -> tuple[int, int]:
        """Return that no time is known."""
        return _NO_TIME

    def leader_epoch(self) -> None:
        """Return that the leader that took it is unknown."""


class PackedBatches:
    """Finds where batches end that cannot be unpacked, in the background; one thread uses it.

    Args:
        find: Finds the end of one; it may take seconds.
    """

    def __init__(self, find: Find) -> None:
        self._find = find
        self._is_closed = False
        self._beside: ThreadPoolExecutor | None = None
        self._sought: dict[TopicPartition, tuple[int, Future[int]]] = {}
        self._found: dict[TopicPartition, range] = {}

    def __bool__(self) -> bool:
        """Whether a reader stands before one."""
        return bool(self._sought or self._found)

    @property
    def places(self) -> AbstractSet[TopicPartition]:
        """The partitions in which a reader stands before one."""
        return self._sought.keys() | self._found.keys()

    def note(self, place: TopicPartition, position: int) -> None:
        """Note that a reader got no further than this position: a batch blocks it."""
        if place in self._sought or place in self._found:
            return
        if self._beside is None:
            self._beside = ThreadPoolExecutor(1, "unpacking")
        finding = self._beside.submit(self._find, place, position, lambda: self._is_closed)
        self._sought[place] = position, finding

    def forget(self, place: TopicPartition) -> None:
        """Drop one: its partition is read elsewhere."""
        if (sought := self._sought.pop(place, None)) is not None:
            sought[1].cancel()  # others need not wait for it if it has not begun
        self._found.pop(place, None)

    def forget_all(self) -> None:
        """Drop all of them."""
        for place in self.places:
            self.forget(place)

    def take(self, most: int) -> tuple[Sequence[PackedRecord], Mapping[TopicPartition, int]]:
        """Return the next records of such batches, and where to read on after those that end."""
        for place, (position, finding) in list(self._sought.items()):
            if finding.done():
                del self._sought[place]
                # Without an answer the client library reports the same again.
                if not isinstance(finding.exception(), TransportError):
                    self._found[place] = range(position, finding.result())
        records: list[PackedRecord] = []
        behind: dict[TopicPartition, int] = {}
        for place, left in list(self._found.items()):
            taken = left[: most - len(records)]
            records += [PackedRecord(place, offset) for offset in taken]
            self._found[place] = left[len(taken) :]
            if not self._found[place]:
                del self._found[place]
                behind[place] = left.stop
        return records, behind

    def close(self) -> None:
        """Stop searching."""
        self._is_closed = True
        if self._beside is not None:
            self._beside.shutdown(cancel_futures=True)


def find_end(
    site: Site,
    settings: Settings,
    place: TopicPartition,
    offset: int,
    asked: Future[Any],
    is_closed: IsClosed,
) -> int:
    """Return the first offset after a batch that cannot be unpacked.

    No request returns that. But a request for an offset returns the whole batch that contains it: a
    record, an end of partition or another start shows that it is not this one.

    Args:
        site: The Kafka cluster.
        settings: Of a reader.
        place: The partition.
        offset: An offset of the batch.
        asked: Its result is the `offset` that a reader of committed records can reach now.
        is_closed: Says whether the answer is no longer needed.

    Raises:
        TransportError: Nobody answers.
    """
    deadline_s = time.monotonic() + ANSWER_WITHIN_S
    while not asked.done() and time.monotonic() < deadline_s and not is_closed():
        wait([asked], SLICE_S)
    if (end := told_offset(asked)) is None:
        raise TransportUnavailableError(site.text(f"read {place}: its end is not told"))
    try:
        consumer = Consumer(settings)
        try:
            inside, behind, step = offset, end, 1
            while behind - inside > 1:
                at = inside + step if inside + step < behind else (inside + behind) // 2
                begin = _batch_at(site, consumer, place, at, is_closed)
                if begin is None:
                    behind = at
                elif begin > inside:
                    behind = begin
                else:
                    inside, step = at, 2 * step
            return inside + 1
        finally:
            consumer.close()
    except KafkaException as exc:
        raise transport_error(site, f"read {place}", error_of(exc)) from exc


def _batch_at(
    site: Site, consumer: Consumer, place: TopicPartition, offset: int, is_closed: IsClosed
) -> int | None:
    """Return the start of the unpackable batch that contains an offset; None if it unpacks."""
    consumer.assign([Place(place.topic, place.partition, offset)])
    deadline_s = time.monotonic() + ANSWER_WITHIN_S
    while time.monotonic() < deadline_s and not is_closed():
        message: Message | None = consumer.poll(SLICE_S)
        if message is None or message.topic() != place.topic:
            continue
        error = message.error()
        if error is None or error.code() == KafkaError._PARTITION_EOF:
            return None
        if error.code() != UNPACKABLE:
            raise transport_error(site, f"read {place}", error)
        return message.offset() or 0
    raise TransportUnavailableError(site.text(f"read {place}: no answer in time"))
