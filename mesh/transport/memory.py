"""An in-memory Kafka cluster for the simulator and for tests: deterministic, single-threaded.

It keeps what the mesh relies on: offsets, topic ids, transactions with control markers that take
an offset, the last stable offset, fencing by transactional id, create and append time, positions
that can be lost, size limits, groups that share partitions. The contract tests run against this
form and against real brokers.

What it can do to its clients, if it is asked to (nothing by default):

* everything in `mesh.transport.memory_faults`: begin, commit and abort that fail or whose outcome
  is unknown, on either side; a crash at any call; fetches that are late or tiny. Who goes on with
  a writer after an unknown outcome gets a torn transaction, as real brokers may give (KAFKA-17754);
* `available`: brokers down and back; `blocked`: one client reads nothing from one topic;
* `denied`: a topic refuses records, and `commit` says so, as for deleted topics and records that
  are too large;
* `session_timeout_ms`: members that do not poll lose their lanes;
* `end_transactions`, `delete_topic`, `recreate`, `truncate`, `delete_before`.

What it does not do:

* no threads and no waiting: a read never blocks, and an open transaction stays open until its
  writer ends it, a successor fences it or `end_transactions` is called;
* no delay: the marker of a commit is there when it returns, brokers write it soon after;
* no replication and no leaders: `truncate` is all that is left of a lost leader; no retention and
  no compaction (every record stays until `delete_before`);
* records handed over while the brokers are down fail instead of waiting;
* no batches on the wire: the size limit is judged per record, by an estimate;
* keys are placed by CRC-32 and records without a key in turn, unlike real clients;
* no rights and no quotas but `denied`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mesh.transport.groups import slowest
from mesh.transport.memory_clients import MemoryReader, MemoryWriter
from mesh.transport.memory_faults import Call
from mesh.transport.memory_group import MemoryGroup, MemoryMembership
from mesh.transport.memory_log import MemoryBroker
from mesh.transport.port import TopicInfo, TopicPartition, TopicSpec


def _no_clock() -> int:
    return 1


class MemoryKafka(MemoryBroker):
    """One Kafka cluster in memory; see the module for what it leaves out.

    Fault hooks: see the module, `MemoryBroker` and `MemoryFaults`; and `crash()` of a membership.

    Args:
        name: Stands in the cluster id, in topic ids and in error texts.
        now_ms: The brokers' and clients' clock, ms since 1970.
    """

    def __init__(self, name: str, *, now_ms: Callable[[], int] = _no_clock) -> None:
        super().__init__(name, now_ms)
        self._admin = MemoryAdmin(self)
        self._writers: dict[str, MemoryWriter] = {}
        self._groups: dict[str, MemoryGroup] = {}

    def reader(self, name: str, *, patience_ms: int = 0) -> MemoryReader:  # noqa: ARG002
        """Return a new reader; `name` is what `blocked` names, and nothing ever waits here."""
        self.require_available()
        return MemoryReader(self, name)

    def writer(self, name: str, transactional_id: str | None = None) -> MemoryWriter:
        """Return a new writer. With an id, predecessors are fenced and their transactions ended."""
        self._ask(Call.OPEN, name, transactional_id or "")
        self.require_available()
        writer = MemoryWriter(self, name, transactional_id)
        if transactional_id is not None:
            former = self._writers.get(transactional_id)
            if former is not None:
                former.fence()
            self._writers[transactional_id] = writer
        self._ask(Call.OPENED, name, transactional_id or "")
        return writer

    def _ask(self, call: Call, client: str, what: str) -> None:
        if self.faults is not None:
            self.faults.called(call, client, what)

    def membership(self, name: str, group: str, topic: str) -> MemoryMembership:
        """Join the group that shares out the partitions of `topic`."""
        self.require_available()
        if group not in self._groups:
            self._groups[group] = MemoryGroup(self, topic)
        return MemoryMembership(self._groups[group], self, name)

    def admin(self) -> MemoryAdmin:
        """Return the one admin of this Kafka cluster."""
        return self._admin

    def end_transactions(self, transactional_id: str) -> None:
        """Abort what a dead writer left open, as brokers do after the transaction timeout."""
        former = self._writers.pop(transactional_id, None)
        if former is not None:
            former.fence()

    def close(self) -> None:
        """Do nothing: records stay for the next client, as on real brokers."""


class MemoryAdmin:
    """Looks after the topics of one in-memory Kafka cluster."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker

    def cluster_id(self) -> str:
        """Return the identity that the broker reports."""
        self._broker.require_available()
        return f"memory-{self._broker.name}"

    def create(self, topics: Sequence[TopicSpec]) -> None:
        """Create those that do not exist yet; existing ones are left as they are."""
        self._broker.require_available()
        faults = self._broker.faults
        for spec in topics:
            if faults is not None:
                faults.called(Call.CREATE, "admin", spec.name)
            self._broker.create_topic(spec)
        if faults is not None:
            faults.called(Call.CREATED, "admin", "")

    def describe(self, names: Sequence[str]) -> Mapping[str, TopicInfo]:
        """Return those that exist."""
        self._broker.require_available()
        topics = self._broker.topics
        return {name: topics[name].info for name in names if name in topics}

    def settings(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the settings that those which exist were made with."""
        self._broker.require_available()
        topics = self._broker.topics
        return {name: topics[name].settings for name in names if name in topics}

    def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return high watermarks (open transactions included), of the partitions that exist."""
        self._broker.require_available()
        logs = {place: self._broker.log(place) for place in partitions}
        return {place: log.end for place, log in logs.items() if log is not None}

    def stable_ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return last stable offsets: how far a reader of committed records can get now."""
        self._broker.require_available()
        logs = {place: self._broker.log(place) for place in partitions}
        return {place: log.stable for place, log in logs.items() if log is not None}

    def starts(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the first offsets still there, of the partitions that exist."""
        self._broker.require_available()
        logs = {place: self._broker.log(place) for place in partitions}
        return {place: log.start for place, log in logs.items() if log is not None}

    def consumed(self, topics: Sequence[str]) -> Mapping[TopicPartition, int]:
        """Return the offsets that all consumer groups of a topic have passed."""
        self._broker.require_available()
        return slowest(list(self._broker.groups.values()), topics)

    def delete_before(self, positions: Mapping[TopicPartition, int]) -> None:
        """Delete the records below these offsets.

        Raises:
            TransportDeniedError: A topic is compacted; its records stay.
            TransportError: An offset is beyond the end. Nothing was deleted.
        """
        self._broker.require_available()
        self._broker.delete_before(positions)
