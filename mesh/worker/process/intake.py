"""Records of all Kafka clusters that a worker reads, in one stream.

One thread per Kafka cluster waits for records, because a wait on one must not delay the others;
everything else happens in the worker's own thread. The simulator reads without threads.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mesh.transport.port import Reader, Record, TopicPartition

READ_LIMIT = 2_000
GATHER_S = 0.02
"""How long records for which nobody waits are gathered: a worker does more in a turn than they are
worth, and each neighbour's heartbeat and its word of the link come one after the other."""
_WAIT_S = 0.5
_DEPTH = 3

MayWait = Callable[[Record], bool]


def none_may_wait(_record: Record) -> bool:
    """Return that a record is awaited, whichever it is: nothing is gathered."""
    return False


class Intake(Protocol):
    """Where a worker gets its records.

    `positions` says, for watched partitions, how far the records returned so far go.
    """

    positions: dict[TopicPartition, int]

    def read(self, timeout_s: float, may_wait: MayWait = none_may_wait) -> Sequence[Record]:
        """Return records as soon as there are some, or none after the timeout.

        Args:
            timeout_s: How long to wait.
            may_wait: Returns whether nobody waits for a record. As long as there are only such,
                more are gathered for a moment within the timeout; anything else ends that at once.
        """

    def add(self, kafka: str, reader: Reader) -> None:
        """Read another Kafka cluster too, if it does not yet."""

    def watch(self, kafka: str, place: TopicPartition) -> None:
        """Keep `positions` up to date for a partition."""

    def unwatch(self, place: TopicPartition) -> None:
        """Stop that."""

    def forget(self, places: Sequence[TopicPartition]) -> None:
        """Discard what was fetched from these partitions before now; they are no longer assigned.

        Their `positions` become invalid too: they may be assigned again further back.
        """

    def close(self) -> None:
        """Stop reading and close the readers."""


@dataclass(slots=True)
class PolledIntake:
    """Reads all readers in turn, without waiting: for the simulator."""

    readers: dict[str, Reader]
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    _watched: dict[TopicPartition, str] = field(default_factory=dict)

    def read(self, timeout_s: float, may_wait: MayWait = none_may_wait) -> Sequence[Record]:  # noqa: ARG002
        """Return what there is."""
        records: list[Record] = []
        for reader in self.readers.values():
            records.extend(reader.read(0, READ_LIMIT))
        for place, kafka in self._watched.items():
            self.positions[place] = self.readers[kafka].position(place)
        return records

    def add(self, kafka: str, reader: Reader) -> None:
        """Read another Kafka cluster too."""
        self.readers[kafka] = reader

    def watch(self, kafka: str, place: TopicPartition) -> None:
        """Keep `positions` up to date for a partition."""
        self._watched[place] = kafka

    def unwatch(self, place: TopicPartition) -> None:
        """Stop that."""
        self._watched.pop(place, None)
        self.positions.pop(place, None)

    def forget(self, places: Sequence[TopicPartition]) -> None:
        """Forget how far they were read: no records wait between a reader and the worker."""
        for place in places:
            self.positions.pop(place, None)

    def close(self) -> None:
        """Close the readers."""
        for reader in self.readers.values():
            reader.close()


@dataclass(frozen=True, slots=True)
class _Fetched:
    """The result of a read, and the positions after it.

    Attributes:
        kafka: Kafka cluster of the reader.
        heeded: How many changes of its assignment the read took into account.
        records, positions: The result.
    """

    kafka: str
    heeded: int
    records: Sequence[Record]
    positions: Mapping[TopicPartition, int]


class ThreadedIntake:
    """One thread per reader waits; the worker takes what they found, oldest first."""

    def __init__(self, readers: dict[str, Reader]) -> None:
        self.positions: dict[TopicPartition, int] = {}
        self._readers = readers
        self._watched: dict[TopicPartition, str] = {}
        self._fetched: queue.Queue[_Fetched | BaseException] = queue.Queue(_DEPTH * len(readers))
        self._stopping = threading.Event()
        self._forgotten: dict[tuple[str, int], Mapping[str, int]] = {}
        self._threads: list[threading.Thread] = []
        for pair in readers.items():
            self._begin(*pair)

    def _begin(self, kafka: str, reader: Reader) -> None:
        name = f"read-{kafka}"
        thread = threading.Thread(target=self._fetch, args=(kafka, reader), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def add(self, kafka: str, reader: Reader) -> None:
        """Read another Kafka cluster too."""
        self._readers[kafka] = reader
        self._begin(kafka, reader)

    def _fetch(self, kafka: str, reader: Reader) -> None:
        try:
            while not self._stopping.is_set():
                records = reader.read(_WAIT_S, READ_LIMIT)
                watched = [place for place, at in list(self._watched.items()) if at == kafka]
                positions = {place: reader.position(place) for place in watched}
                if records or positions:
                    self._put(_Fetched(kafka, reader.heeded, records, positions))
        except BaseException as error:  # noqa: BLE001 - the worker's thread must learn of it
            self._put(error)

    def _put(self, fetched: _Fetched | BaseException) -> None:
        while not self._stopping.is_set():
            try:
                self._fetched.put(fetched, timeout=_WAIT_S)
            except queue.Full:
                continue
            return

    def read(self, timeout_s: float, may_wait: MayWait = none_may_wait) -> Sequence[Record]:
        """Return the records of one fetch, or of several; raise what a reading thread died of."""
        until_s = time.monotonic() + timeout_s
        gathered: list[Record] = []
        while (found := self._take(until_s - time.monotonic())) is not None:
            gathered += found
            if not found or not all(map(may_wait, found)):
                break
            until_s = min(until_s, time.monotonic() + GATHER_S)
        return gathered

    def _take(self, timeout_s: float) -> Sequence[Record] | None:
        """Return the records of one fetch, of which some may be forgotten; None without any."""
        try:
            fetched = (
                self._fetched.get(timeout=timeout_s)
                if timeout_s > 0
                else self._fetched.get_nowait()
            )
        except queue.Empty:
            return None
        if isinstance(fetched, BaseException):
            raise fetched
        if fetched.heeded == self._readers[fetched.kafka].noted:
            self.positions.update(fetched.positions)
            return fetched.records
        for place, position in fetched.positions.items():
            since = self._forgotten.get((place.topic, place.partition), {})
            if fetched.heeded >= since.get(fetched.kafka, 0):
                self.positions[place] = position
        return [record for record in fetched.records if not self._is_forgotten(fetched, record)]

    def _is_forgotten(self, fetched: _Fetched, record: Record) -> bool:
        since = self._forgotten.get((record.topic(), record.partition()))
        return since is not None and fetched.heeded < since.get(fetched.kafka, 0)

    def forget(self, places: Sequence[TopicPartition]) -> None:
        """Stop returning what was fetched from these partitions before; they are unassigned now.

        Records that a reader found before it heeded this carry a lower number of changes than it
        has been sent. When its read began does not matter: a waiting read may heed an assignment
        that comes after this, and what it finds then must not be lost.
        """
        now = {kafka: reader.noted for kafka, reader in self._readers.items()}
        for place in places:
            self._forgotten[place.topic, place.partition] = now
            self.positions.pop(place, None)

    def watch(self, kafka: str, place: TopicPartition) -> None:
        """Keep `positions` up to date for a partition."""
        self._watched[place] = kafka

    def unwatch(self, place: TopicPartition) -> None:
        """Stop that."""
        self._watched.pop(place, None)
        self.positions.pop(place, None)

    def close(self) -> None:
        """Stop the threads, then close the readers."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(timeout=2 * _WAIT_S + 1)
        for reader in self._readers.values():
            reader.close()


def by_partition(records: Sequence[Record]) -> Mapping[TopicPartition, Sequence[Record]]:
    """Return the records grouped by partition, in order."""
    data: dict[tuple[str, int], list[Record]] = {}
    group: list[Record] = []
    last_topic, last_partition = "", -1
    for record in records:
        topic, partition = record.topic(), record.partition()
        if partition != last_partition or topic != last_topic:
            group = data.setdefault((topic, partition), [])
            last_topic, last_partition = topic, partition
        group.append(record)
    return {TopicPartition(*place): group for place, group in data.items()}
