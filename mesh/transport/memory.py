"""An in-memory Kafka cluster for the simulator and for tests: deterministic, single-threaded.

It keeps what the mesh relies on: offsets, topic ids, transactions with control markers that take
an offset, the last stable offset, fencing by transactional id, create and append time, positions
that can be lost, size limits, groups that share partitions. The contract tests run against this
form and against real brokers.

What it can do to its clients, if it is asked to (nothing by default):

* everything in `mesh.transport.memory_faults`: begin, commit and abort that fail or whose outcome
  is unknown, on either side; a crash at any call; fetches that are late or tiny; admins that are
  refused an answer. Who goes on with a writer after an unknown outcome gets a torn transaction,
  as real brokers may give (KAFKA-17754);
* `available`: brokers down and back; `blocked`: one client reads nothing from one topic;
* `denied`: a topic refuses records, and `commit` says so, as for deleted topics and records that
  are too large;
* a header's name with lone surrogates stands for one that is not UTF-8: nobody can read it;
* `refused`: topics that brokers do not create; `leaderless`: partitions that hold ids and do not
  say where they begin and end; `hidden`: topics that may not be described;
* `costs` of the faults: how long real calls would wait for brokers that do not answer;
* `session_timeout_ms`: members that do not poll lose their lanes;
* `end_transactions`, `delete_topic`, `recreate`, `truncate`, `delete_before`, `compact`.

What it does not do:

* no threads and no waiting: a read never blocks, and an open transaction stays open until its
  writer ends it, a successor fences it or `end_transactions` is called;
* no delay: the marker of a commit is there when it returns, brokers write it soon after;
* no replication and no leaders: `truncate` is all that is left of a lost leader, `brokers` and
  `kept` are only reported; nothing is retained or compacted by itself (records stay until
  `delete_before` or `compact`);
* records handed over while the brokers are down fail instead of waiting;
* no batches on the wire: the size limit is judged per record, by an estimate;
* keys are placed by CRC-32 and records without a key in turn, unlike real clients;
* no quotas; rights are only reported (`withheld`), and `denied` lists topics that refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from mesh.errors import TransportDeniedError, TransportHeldError, TransportUnavailableError
from mesh.transport.groups import of_topics, slowest
from mesh.transport.memory_clients import MemoryReader, MemoryWriter
from mesh.transport.memory_consumer import MemoryConsumer
from mesh.transport.memory_faults import Call
from mesh.transport.memory_group import MemoryGroup, MemoryMembership
from mesh.transport.memory_log import MESSAGE_BYTES_MAX, MemoryBroker, PartitionLog
from mesh.transport.port import Copies, Passed, Rights, TopicInfo, TopicPartition, TopicSpec

OPERATIONS = frozenset(
    {"READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "ALTER_CONFIGS", "DESCRIBE_CONFIGS"}
)
"""What a broker without rights of its own lets everybody do with a topic."""

DELETE = "DELETE"
GROUP_OPERATIONS = frozenset({"READ", DELETE, "DESCRIBE"})
"""Likewise with a group."""


def _no_clock() -> int:
    return 1


OPEN_MS, ASK_MS = 15_000, 500
"""How long a real client tries to take a transactional id, and to have one question answered."""


class MemoryKafka(MemoryBroker):
    """One Kafka cluster in memory; see the module for what it leaves out.

    Fault hooks: see the module, `MemoryBroker` and `MemoryFaults`; `crash()` of a membership; and
    the attributes below, which change nothing but what is reported.

    Args:
        name: Stands in the cluster id, in topic ids and in error texts.
        now_ms: The brokers' and clients' clock, ms since 1970.

    Attributes:
        broker_settings: What each broker says of its settings.
        brokers: How many there are.
        kept: Partitions that are not kept by three brokers, and how they are kept.
        withheld: Operations that the present principal lacks, by topic.
        hides_groups: Whether the present principal does not see every consumer group.
        hidden: Topics that the present principal may not describe.
    """

    def __init__(self, name: str, *, now_ms: Callable[[], int] = _no_clock) -> None:
        super().__init__(name, now_ms)
        self.broker_settings: dict[str, str] = {}
        self.brokers = 3
        self.kept: dict[TopicPartition, Copies] = {}
        self.withheld: dict[str, frozenset[str]] = {}
        self.hides_groups = False
        self.hidden: set[str] = set()
        self._admin = MemoryAdmin(self)
        self._writers: dict[str, MemoryWriter] = {}
        self.member_groups: dict[str, MemoryGroup] = {}

    def reader(
        self,
        name: str,
        *,
        patience_ms: int = 0,  # noqa: ARG002 - nothing ever waits here
        gathers: bool = False,  # noqa: ARG002 - and nothing costs a request
        topics: Collection[str] = (),
    ) -> MemoryReader:
        """Return a new reader; `name` is what `blocked` names."""
        if topics:
            self.find_leaders(name)
        self.require_available()
        return MemoryReader(self, name, topics)

    def writer(
        self,
        name: str,
        transactional_id: str | None = None,
        *,
        tells: bool = False,  # noqa: ARG002 - it always tells
        is_prompt: bool = False,  # noqa: ARG002 - it always is
        patience_ms: int | None = None,  # noqa: ARG002 - what is available answers at once
    ) -> MemoryWriter:
        """Return a new writer. With an id, predecessors are fenced and their transactions ended."""
        self._ask(Call.OPEN, name, transactional_id or "")
        self.costs("open", self.answers_after_ms if self.available else OPEN_MS)
        self.require_available()
        if self.leaderless and (former := self._writers.get(transactional_id or "")) is not None:
            former.fence()
        if self.is_prepared(transactional_id or ""):
            self.costs("open", OPEN_MS)
            raise TransportHeldError(
                f"Kafka cluster {self.name}: take transactional id {transactional_id}: "
                "a partition without a leader holds its last transaction"
            )
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
        if group not in self.member_groups:
            self.member_groups[group] = MemoryGroup(self, topic)
        return MemoryMembership(self.member_groups[group], self, name)

    def consumer(self, name: str, group: str, topic: str) -> MemoryConsumer:
        """Join a group of consumers of `topic`."""
        self.costs("open", self.answers_after_ms if self.available else OPEN_MS)
        self.require_available()
        if group not in self.member_groups:
            self.member_groups[group] = MemoryGroup(self, topic)
        return MemoryConsumer(self, self.member_groups[group], group, name)

    def admin(self) -> MemoryAdmin:
        """Return the one admin of this Kafka cluster."""
        return self._admin

    def end_transactions(self, transactional_id: str | None = None) -> None:
        """Abort what a dead writer, or every writer, left open, as brokers do after a timeout."""
        for name in list(self._writers) if transactional_id is None else [transactional_id]:
            former = self._writers.pop(name, None)
            if former is not None:
                former.fence()

    def close(self) -> None:
        """Do nothing: records stay for the next client, as on real brokers."""


class MemoryAdmin:
    """Looks after the topics of one in-memory Kafka cluster."""

    def __init__(self, broker: MemoryKafka) -> None:
        self._broker = broker

    def _ask(self, question: str, about: Sequence[str] = ()) -> None:
        broker = self._broker
        if broker.faults is not None:
            broker.faults.asked(question, about)
        broker.costs("admin", broker.answers_after_ms if broker.available else ASK_MS)
        broker.require_available()

    def cluster_id(self) -> str:
        """Return the identity that the broker reports."""
        self._ask("cluster_id")
        return f"memory-{self._broker.name}"

    def create(self, topics: Sequence[TopicSpec]) -> None:
        """Create those that do not exist yet; existing ones are left as they are."""
        self._ask("create", [spec.name for spec in topics])
        faults = self._broker.faults
        for spec in topics:
            if faults is not None:
                faults.called(Call.CREATE, "admin", spec.name)
            self._broker.create_topic(spec)
        if faults is not None:
            faults.called(Call.CREATED, "admin", "")

    def describe(self, names: Sequence[str]) -> Mapping[str, TopicInfo]:
        """Return those that exist."""
        self._ask("describe", names)
        topics, hidden = self._broker.topics, self._broker.hidden.intersection(names)
        found = {name: topics[name].info for name in names if name in topics and name not in hidden}
        if hidden:
            fault = TransportDeniedError(
                f"Kafka cluster {self._broker.name}: describe topic {min(hidden)}: not allowed"
            )
            raise fault.with_answers(found)
        return found

    def settings(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the settings that those which exist were made with."""
        self._ask("settings", names)
        topics = self._broker.topics
        return {name: topics[name].settings for name in names if name in topics}

    def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return high watermarks (open transactions included), of the partitions that exist."""
        return self._led("ends", partitions, lambda log: log.end)

    def stable_ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return last stable offsets: how far a reader of committed records can get now."""
        return self._led("stable_ends", partitions, lambda log: log.stable)

    def starts(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the first offsets still there, of the partitions that exist."""
        return self._led("starts", partitions, lambda log: log.start)

    def since(
        self, partitions: Sequence[TopicPartition], at_ms: int
    ) -> Mapping[TopicPartition, int]:
        """Return offsets before which no record is of that moment or later; ends if none is."""
        return self._led("since", partitions, lambda log: log.since(at_ms))

    def _led(
        self,
        question: str,
        partitions: Sequence[TopicPartition],
        ask: Callable[[PartitionLog], int],
    ) -> Mapping[TopicPartition, int]:
        """Return what leaders say of their logs; without one nobody says anything."""
        self._ask(question, [place.topic for place in partitions])
        broker = self._broker
        mute = broker.leaderless.intersection(partitions)
        mute |= {place for place in partitions if place.topic in broker.hidden}
        logs = {place: broker.log(place) for place in partitions if place not in mute}
        found = {place: ask(log) for place, log in logs.items() if log is not None}
        if mute:
            fault = TransportUnavailableError(
                f"Kafka cluster {broker.name}: list offsets of {min(mute)}: no leader"
            )
            raise fault.with_answers(found)
        return found

    def agrees_until(self, place: TopicPartition, epoch: int, below: int) -> int:
        """Return up to where, below an offset, no later leader than an epoch's has written."""
        self._ask("agrees_until", [place.topic])
        log = self._broker.log(place)
        return below if log is None else log.agrees_until(epoch, min(below, log.end))

    def has_members(self, group: str) -> bool:
        """Return whether somebody is a member of a group, perhaps one who died a moment ago."""
        self._ask("has_members", [group])
        known = self._broker.member_groups.get(group)
        return known is not None and known.has_any()

    def passed(
        self, group: str, places: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, Passed]:
        """Return how far a group has come, of partitions where it has committed anything."""
        self._ask("passed", [group])
        known = self._broker.groups.get(group, {})
        return {place: self._broker.passed(group, place) for place in places if place in known}

    def group_members(self, group: str) -> Sequence[str]:
        """Return the name of each member of a group."""
        self._ask("group_members", [group])
        known = self._broker.member_groups.get(group)
        return [] if known is None else known.names()

    def consumed(
        self, topics: Sequence[str], *, besides: Collection[str] = ()
    ) -> Mapping[TopicPartition, int]:
        """Return the offsets that all consumer groups of a topic, besides some, have passed."""
        self._ask("consumed", topics)
        groups = [read for name, read in self._broker.groups.items() if name not in besides]
        return slowest(groups, topics)

    def readers(
        self, topics: Sequence[str], *, besides: Collection[str] = ()
    ) -> Mapping[str, Mapping[TopicPartition, int]]:
        """Return how far every group, besides some, has come on these topics: all, or none.

        Raises:
            TransportDeniedError: A test says that groups are hidden.
        """
        self._ask("readers", topics)
        if self._broker.hides_groups:
            raise TransportDeniedError(
                f"Kafka cluster {self._broker.name}: list consumer groups: not all are shown"
            )
        groups = {
            name: of_topics(read, topics)
            for name, read in self._broker.groups.items()
            if name not in besides
        }
        return {name: read for name, read in groups.items() if read}

    def named(self, prefix: str) -> Sequence[str]:
        """Return the topics whose names begin so."""
        self._ask("named")
        return [name for name in self._broker.topics if name.startswith(prefix)]

    def delete_before(self, positions: Mapping[TopicPartition, int]) -> None:
        """Delete the records below these offsets.

        Raises:
            TransportDeniedError: A topic is compacted; its records stay.
            TransportError: An offset is beyond the end. Nothing was deleted.
        """
        self._ask("delete_before", [place.topic for place in positions])
        self._broker.delete_before(positions)

    def delete(self, names: Sequence[str]) -> None:
        """Delete topics with their records; those that do not exist are left out.

        Raises:
            TransportDeniedError: A test withholds the right.
        """
        self._ask("delete", names)
        for name in dict.fromkeys(names):
            if name not in self._broker.topics:
                continue
            if DELETE in self._broker.withheld.get(name, ()):
                raise TransportDeniedError(
                    f"Kafka cluster {self._broker.name}: delete topic {name}: not allowed"
                )
            self._broker.delete_topic(name)

    def change(self, name: str, settings: Mapping[str, str]) -> None:
        """Set these settings of a topic; its others stay as they are.

        Raises:
            TransportDeniedError: There is no such topic.
        """
        self._ask("change", [name])
        topic = self._broker.topics.get(name)
        if topic is None:
            raise TransportDeniedError(
                f"Kafka cluster {self._broker.name}: topic {name} does not exist; create it"
            )
        topic.settings.update(settings)
        topic.append_time = topic.settings.get("message.timestamp.type") == "LogAppendTime"
        topic.message_bytes_max = int(topic.settings.get("max.message.bytes", MESSAGE_BYTES_MAX))
        topic.compacted = topic.settings.get("cleanup.policy", "delete") == "compact"

    def try_create(self, topics: Sequence[TopicSpec]) -> None:
        """Refuse what `create` would refuse, and create nothing."""
        self._ask("try_create", [spec.name for spec in topics])
        for spec in topics:
            if spec.name not in self._broker.topics:
                self._broker.refuse_topic(spec)

    def rights(self, names: Sequence[str]) -> Mapping[str, Rights]:
        """Return what the present principal may do with those that exist."""
        self._ask("rights", names)
        withheld = self._broker.withheld
        return {
            name: Rights(OPERATIONS - withheld.get(name, frozenset()))
            for name in names
            if name in self._broker.topics
        }

    def group_rights(self, groups: Sequence[str]) -> Mapping[str, Rights]:
        """Return what the present principal may do with groups, whether they exist or not."""
        self._ask("group_rights", groups)
        withheld = self._broker.withheld
        return {
            name: Rights(GROUP_OPERATIONS - withheld.get(f"group {name}", frozenset()))
            for name in groups
        }

    def copies(self, names: Sequence[str]) -> Mapping[TopicPartition, Copies]:
        """Return how often each partition of those that exist is said to be kept."""
        try:
            return self._copies(self.describe(names))
        except TransportDeniedError as error:
            error.with_answers(self._copies(error.answers_to(self.describe)))
            raise

    def _copies(self, found: Mapping[str, TopicInfo]) -> Mapping[TopicPartition, Copies]:
        return {
            place: self._broker.kept.get(
                place, Copies(3, 3, has_leader=place not in self._broker.leaderless)
            )
            for name, info in found.items()
            for place in (TopicPartition(name, number) for number in range(info.partitions))
        }

    def broker_settings(self) -> Mapping[int, Mapping[str, str]]:
        """Return the same settings for every broker."""
        return dict.fromkeys(self.brokers(), self._broker.broker_settings)

    def brokers(self) -> Sequence[int]:
        """Return the numbers of the brokers, from 1 on."""
        self._ask("brokers")
        return range(1, self._broker.brokers + 1)
