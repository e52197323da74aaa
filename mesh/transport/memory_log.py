"""Partitions, topics and broker state of the in-memory Kafka cluster."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256

from mesh.errors import TransportDeniedError, TransportError, TransportUnavailableError
from mesh.transport.memory_faults import MemoryFaults
from mesh.transport.port import BEGINNING, Passed, TopicInfo, TopicPartition, TopicSpec

CREATE_TIME, LOG_APPEND_TIME = 1, 2
MESSAGE_BYTES_MAX = 1_048_588
"""What a stock broker allows when the topic does not say."""
RECORD_OVERHEAD_BYTES = 73
"""Batch header and the usual varints around a batch of one record."""
HEADER_OVERHEAD_BYTES = 3
LEADERS_MS = 500
"""How long a real reader waits for the leaders of new topics at most."""
ODD = "surrogateescape"
"""How the name of a header that is not UTF-8 is written here: as Python writes odd file names."""


class MemoryRecord:
    """One record as read: the methods of the port, nothing else."""

    __slots__ = (
        "_headers",
        "_key",
        "_leader_epoch",
        "_offset",
        "_partition",
        "_timestamp",
        "_topic",
        "_value",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes | None]] | None,
        timestamp: tuple[int, int],
        leader_epoch: int = 0,
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._offset = offset
        self._key = key
        self._value = value
        self._headers = headers
        self._timestamp = timestamp
        self._leader_epoch = leader_epoch

    def topic(self) -> str:
        """Return the topic's name."""
        return self._topic

    def partition(self) -> int:
        """Return the partition."""
        return self._partition

    def offset(self) -> int:
        """Return the offset."""
        return self._offset

    def key(self) -> bytes | None:
        """Return the key."""
        return self._key

    def leader_epoch(self) -> int | None:
        """Return how often the log's end had been cut off when this was written."""
        return self._leader_epoch

    def value(self) -> bytes | None:
        """Return the value; None is a tombstone."""
        return self._value

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Return the headers in order, or None without any."""
        return self._headers

    def set_headers(self, headers: list[tuple[str, bytes | None]]) -> None:
        """Replace the headers, for everybody who looks from now on."""
        self._headers = headers

    def timestamp(self) -> tuple[int, int]:
        """Return (type, ms since 1970)."""
        return self._timestamp

    def __repr__(self) -> str:
        place = f"{self._topic}[{self._partition}]@{self._offset}"
        return f"MemoryRecord({place}, key={self._key!r}, value={self._value!r})"


class OddRecord(MemoryRecord):
    """A record with a header whose name is not UTF-8: nobody gets its headers out of the client."""

    __slots__ = ()

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Return what was set instead; until then raise what the client library raises."""
        if self._headers and any(map(_is_odd, self._headers)):
            raise SystemError("<method 'headers'> returned a result with an exception set")
        return self._headers


def _is_odd(header: tuple[str, bytes | None]) -> bool:
    name = header[0]
    return not name.isascii() and any("\udc80" <= letter <= "\udcff" for letter in name)


class PartitionLog:
    """One partition: offsets from `start` to `end`, and the transactions open on it.

    An entry is a record, or None where no reader will ever see one: a control marker, or a
    record of an aborted transaction. Both take an offset, as in Kafka. `changed` is the number
    of the broker's last change that readers of this partition could notice; `leader_epoch` is
    that of its leader, which rises when the log's end is cut off.
    """

    __slots__ = (
        "changed",
        "entries",
        "leader_epoch",
        "partition",
        "start",
        "topic",
        "transactions",
    )

    def __init__(self, topic: str, partition: int, changed: int = 0) -> None:
        self.changed = changed
        self.topic = topic
        self.partition = partition
        self.start = 0
        self.leader_epoch = 0
        self.entries: list[MemoryRecord | None] = []
        self.transactions: dict[int, list[int]] = {}

    @property
    def end(self) -> int:
        """The high watermark: the offset of the next record, open transactions included."""
        return self.start + len(self.entries)

    @property
    def stable(self) -> int:
        """The last stable offset: the first record of the oldest open transaction, or the end."""
        # Transactions enter the dict with their first record here, so the first is the oldest.
        for offsets in self.transactions.values():
            return offsets[0]
        return self.start + len(self.entries)

    def since(self, at_ms: int) -> int:
        """Return the offset of the first record of a moment or later, or the end."""
        for offset, record in enumerate(self.entries, self.start):
            if record is not None and record.timestamp()[1] >= at_ms:
                return offset
        return self.end

    def agrees_until(self, epoch: int, below: int) -> int:
        """Return up to where, below an offset, no later leader than an epoch's has written."""
        for offset, record in enumerate(self.entries[: max(0, below - self.start)], self.start):
            if record is not None and (record.leader_epoch() or 0) > epoch:
                return offset
        return below

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes | None]] | None,
        timestamp: tuple[int, int],
        transaction: int | None,
    ) -> None:
        """Append one record; with a transaction it stays unseen until that is committed."""
        offset = self.start + len(self.entries)
        made = OddRecord if headers and any(map(_is_odd, headers)) else MemoryRecord
        self.entries.append(
            made(
                self.topic,
                self.partition,
                offset,
                key,
                value,
                headers,
                timestamp,
                self.leader_epoch,
            )
        )
        if transaction is not None:
            self.transactions.setdefault(transaction, []).append(offset)

    def end_transaction(self, transaction: int, *, committed: bool) -> None:
        """Write the control marker that commits or aborts a transaction on this partition."""
        offsets = self.transactions.pop(transaction, [])
        if not committed:
            for offset in offsets:
                if offset >= self.start:
                    self.entries[offset - self.start] = None
        self.entries.append(None)

    def delete_before(self, offset: int) -> None:
        """Drop the records below an offset; below the start nothing happens."""
        if offset > self.start:
            del self.entries[: offset - self.start]
            self.start = offset

    def truncate(self, records: int) -> None:
        """Drop so many records at the end and the markers behind them, as an unclean election."""
        self.leader_epoch += 1
        while self.entries and records > 0:
            records -= self.entries.pop() is not None
        for number, offsets in list(self.transactions.items()):
            kept = [offset for offset in offsets if offset < self.end]
            if kept:
                self.transactions[number] = kept
            else:
                del self.transactions[number]


class MemoryTopic:
    """One topic: its id, its settings and its partitions."""

    def __init__(self, spec: TopicSpec, topic_id: bytes, changed: int) -> None:
        self.info = TopicInfo(spec.name, topic_id, spec.partitions)
        self.settings = dict(spec.settings)
        self.logs = [PartitionLog(spec.name, index, changed) for index in range(spec.partitions)]
        self.append_time = spec.settings.get("message.timestamp.type") == "LogAppendTime"
        self.message_bytes_max = int(spec.settings.get("max.message.bytes", MESSAGE_BYTES_MAX))
        self.compacted = spec.settings.get("cleanup.policy", "delete") == "compact"
        self._unkeyed = 0

    def log_for(self, partition: int, key: bytes | None) -> PartitionLog | None:
        """Return the partition asked for, or with -1 the one of the key; None if there is none."""
        if partition < 0:
            if key is None:
                self._unkeyed += 1
            number = self._unkeyed if key is None else zlib.crc32(key)
            return self.logs[number % len(self.logs)]
        return self.logs[partition] if partition < len(self.logs) else None


def record_bytes(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
) -> int:
    """Estimate what a broker counts for a batch of this one record, uncompressed."""
    size = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += HEADER_OVERHEAD_BYTES + len(name.encode(errors=ODD)) + len(content or b"")
    return size


class MemoryBroker:
    """What all clients of one in-memory Kafka cluster share.

    Attributes:
        available: False makes every call that needs a broker fail, as if all brokers were down.
        blocked: Pairs (client name, topic): that client reads nothing from that topic.
        denied: Topics that refuse records, with the reason; a transaction learns it at its end.
        refused: Topics that are not created, with the reason.
        leaderless: Partitions without a leader: they are neither read nor written, and hold the
            transactional ids of transactions that touch them, successors included.
        answers_after_ms: How long each question takes to be answered, and each client to be opened.
        session_timeout_ms: A member that does not poll for so long is taken out of its group when
            another one joins or polls; None for never.
        faults: Asked at every call of a port; None for a kind Kafka cluster.
        groups: What consumer groups of clients have committed, by group.
        remarks, leader_epochs: What was written beside that.
        changes: Grows with everything a reader could notice, so that an idle read costs nothing.
        elections: Grows when a log loses its end.
        shape: Grows when topics come or go.
    """

    def __init__(self, name: str, now_ms: Callable[[], int]) -> None:
        self.name = name
        self.now_ms = now_ms
        self.available = True
        self.blocked: set[tuple[str, str]] = set()
        self.denied: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self.leaderless: set[TopicPartition] = set()
        self._prepared: dict[str, set[TopicPartition]] = {}
        self.answers_after_ms = 0
        self.session_timeout_ms: int | None = None
        self.faults: MemoryFaults | None = None
        self.topics: dict[str, MemoryTopic] = {}
        self.groups: dict[str, Mapping[TopicPartition, int]] = {}
        self.remarks: dict[tuple[str, TopicPartition], str] = {}
        self.leader_epochs: dict[tuple[str, TopicPartition], int | None] = {}
        self._pending: dict[int, dict[tuple[str, TopicPartition], Passed]] = {}
        self.changes = 0
        self.elections = 0
        self.shape = 0
        self._topics_made = 0
        self._transactions_begun = 0

    def require_available(self) -> None:
        """Raise TransportUnavailableError while the brokers are down."""
        if not self.available:
            raise TransportUnavailableError(
                f"Kafka cluster {self.name}: no broker answers; start one or wait for it"
            )

    def costs(self, what: str, ms: int) -> None:
        """Have a call take as long as a real one waits for brokers, if somebody counts that."""
        if self.faults is not None:
            self.faults.costs(what, ms)

    def find_leaders(self, reader: str) -> None:
        """Have a reader ask who leads topics, which a real one does not wait for longer."""
        if self.faults is not None:
            answer_ms = self.answers_after_ms if self.available else LEADERS_MS
            self.faults.costs(f"read {reader}", min(LEADERS_MS, answer_ms))

    def prepare(self, transactional_id: str, touched: Collection[TopicPartition]) -> None:
        """Keep that the end of a transaction waits for partitions without a leader."""
        if waits := self.leaderless.intersection(touched):
            self._prepared[transactional_id] = waits

    def is_prepared(self, transactional_id: str) -> bool:
        """Return whether an id is held by a partition that has no leader still."""
        return bool(self._prepared.get(transactional_id, set()) & self.leaderless)

    def next_transaction(self) -> int:
        """Return a number for a transaction that has just begun."""
        self._transactions_begun += 1
        return self._transactions_begun

    def create_topic(self, spec: TopicSpec) -> None:
        """Create a topic unless it exists, with an id that no topic here had before."""
        if spec.name in self.topics:
            return
        self.refuse_topic(spec)
        self._topics_made += 1
        topic_id = sha256(f"{self.name}:{self._topics_made}".encode()).digest()[:16]
        self.changes += 1
        self.shape += 1
        self.topics[spec.name] = MemoryTopic(spec, topic_id, self.changes)

    def refuse_topic(self, spec: TopicSpec) -> None:
        """Refuse a topic that brokers would not create.

        Raises:
            TransportDeniedError: Why not.
        """
        if spec.name in self.refused:
            raise TransportDeniedError(
                f"Kafka cluster {self.name}: create topic {spec.name}: {self.refused[spec.name]}"
            )
        if spec.partitions < 1:
            raise TransportDeniedError(
                f"Kafka cluster {self.name}: topic {spec.name}: it needs at least 1 partition"
            )

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records and what groups have passed of it, as an operator might.

        For tests.
        """
        del self.topics[name]
        for group, passed in self.groups.items():
            self.groups[group] = {at: offset for at, offset in passed.items() if at.topic != name}
        for key in [key for key in self.remarks if key[1].topic == name]:
            del self.remarks[key], self.leader_epochs[key]
        self.changes += 1
        self.shape += 1

    def recreate(self, name: str) -> None:
        """Delete and recreate a topic: same name and settings, empty, another topic id."""
        former = self.topics[name]
        self.delete_topic(name)
        self.create_topic(
            TopicSpec(name=name, partitions=len(former.logs), settings=former.settings)
        )

    def grow(self, name: str, partitions: int) -> None:
        """Add partitions to a topic until it has so many, as an operator might; for tests."""
        topic = self.topics[name]
        self.changes += 1
        self.shape += 1
        known = len(topic.logs)
        topic.logs += [PartitionLog(name, one, self.changes) for one in range(known, partitions)]
        topic.info = TopicInfo(name, topic.info.topic_id, len(topic.logs))

    def truncate(self, place: TopicPartition, records: int) -> int:
        """Drop the newest records of a partition, as an unclean election does; return its end.

        Their offsets are given out again.
        """
        log = self.topics[place.topic].logs[place.partition]
        log.truncate(records)
        self.elections += 1
        self.touch(log)
        return log.end

    def compact(self, name: str) -> None:
        """Keep the newest record of each key, tombstones too, as brokers do by and by."""
        for log in self.topics[name].logs:
            records = [one for one in log.entries if one is not None]
            newest = {one.key(): one.offset() for one in records}
            for one in records:
                if newest[one.key()] != one.offset():
                    log.entries[one.offset() - log.start] = None

    def touch(self, log: PartitionLog) -> None:
        """Let readers notice that a partition has changed."""
        self.changes += 1
        log.changed = self.changes
        if self.faults is not None:
            self.faults.appended(log.topic, log.partition)

    def commit_group(self, group: str, positions: Mapping[TopicPartition, int]) -> None:
        """Note that a consumer group of a client has committed these offsets; for tests."""
        self.groups[group] = {**self.groups.get(group, {}), **positions}

    def passed(self, group: str, place: TopicPartition) -> Passed:
        """Return how far a group has come on a partition."""
        offset = self.groups.get(group, {}).get(place, BEGINNING)
        key = group, place
        return Passed(offset, self.remarks.get(key, ""), self.leader_epochs.get(key))

    def note_offsets(
        self, transaction: int, group: str, positions: Mapping[TopicPartition, Passed]
    ) -> None:
        """Keep what a group is to have committed once a transaction is."""
        pending = self._pending.setdefault(transaction, {})
        pending.update({(group, place): passed for place, passed in positions.items()})

    def is_pending(self, group: str, place: TopicPartition) -> bool:
        """Return whether an open transaction will say how far a group has come."""
        return any((group, place) in pending for pending in self._pending.values())

    def end_offsets(self, transaction: int, *, committed: bool) -> None:
        """Let what a transaction said of groups be, or not."""
        for (group, place), passed in self._pending.pop(transaction, {}).items():
            if committed:
                self.pass_on(group, {place: passed})

    def pass_on(self, group: str, positions: Mapping[TopicPartition, Passed]) -> None:
        """Note how far a group has come, with remarks."""
        self.commit_group(group, {place: passed.offset for place, passed in positions.items()})
        for place, passed in positions.items():
            self.remarks[group, place] = passed.remark
            self.leader_epochs[group, place] = passed.leader_epoch

    def log(self, place: TopicPartition) -> PartitionLog | None:
        """Return a partition, or None if there is none."""
        topic = self.topics.get(place.topic)
        if topic is None or not 0 <= place.partition < len(topic.logs):
            return None
        return topic.logs[place.partition]

    def delete_before(self, positions: Mapping[TopicPartition, int]) -> None:
        """Delete records below these offsets, or raise before anything is deleted."""
        for place, offset in positions.items():
            log = self.log(place)
            if log is None:
                continue
            where = f"Kafka cluster {self.name}: topic {place.topic} partition {place.partition}"
            if self.topics[place.topic].compacted:
                raise TransportDeniedError(f"{where}: records of a compacted topic stay")
            if offset > log.end:
                raise TransportError(f"{where}: offset {offset} is beyond the end {log.end}")
        for place, offset in positions.items():
            log = self.log(place)
            if log is not None:
                log.delete_before(offset)
                self.touch(log)
