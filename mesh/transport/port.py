"""What the rest of the mesh may ask of Kafka: four ports, each with a real and an in-memory form.

Hot calls keep the shape of the client library (`record.value()`, `writer.produce(...)`), so that
the real form adds no layer per message. Topic names are unique in a mesh: each belongs to one
node, and a node to one Kafka cluster, so a topic name alone says where it lives.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mesh.model.frames import TopicPartition as TopicPartition  # noqa: PLC0414 - part of the port
from mesh.model.record_headers import Headers as Headers  # noqa: PLC0414 - part of the port

Row = tuple[bytes | None, bytes | None, int, Headers | None]
"""A record to be written: value, key, time stamp in ms (0 means now), headers."""

FIRST_MS = 1
"""The create time under which a message of create time 0 is delivered: to the client library (as
of 2.16) 0 means now."""

MEMBER_TIMEOUT_MS = 6_000
"""How long a silent worker keeps its lanes at most: the shortest that stock brokers accept, though
some may allow less. Spec: K15."""

PATIENCE_MS = 500
BEGINNING = -2
"""Position that stands for the first existing record."""


class Record(Protocol):
    """One Kafka record as read; same methods as the client library's message."""

    def topic(self) -> str:
        """Return the topic's name."""

    def partition(self) -> int:
        """Return the partition."""

    def offset(self) -> int:
        """Return the offset."""

    def key(self) -> bytes | None:
        """Return the key."""

    def value(self) -> bytes | None:
        """Return the value; None is a tombstone."""

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Return the headers in order, or None without any."""

    def timestamp(self) -> tuple[int, int]:
        """Return (type, ms since 1970); type 1 is create time, 2 log append time, 0 none."""

    def leader_epoch(self) -> int | None:
        """Return the epoch of the leader that took it, or None if it is not known."""


def place_of(record: Record) -> TopicPartition:
    """Return where a record stands."""
    return TopicPartition(record.topic(), record.partition())


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A topic that should exist. `settings` are Kafka's own topic settings."""

    name: str
    partitions: int
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic that exists: the broker's 16-byte id and the partition count."""

    name: str
    topic_id: bytes
    partitions: int


@dataclass(frozen=True, slots=True)
class Copies:
    """How often a partition is kept.

    Attributes:
        wanted: Brokers that should have it.
        in_sync: Brokers that do have all of it.
        has_leader: Whether one of them serves it; without, it can neither be read nor written.
    """

    wanted: int
    in_sync: int
    has_leader: bool = True


@dataclass(frozen=True, slots=True)
class Rights:
    """What the present principal may do with a topic.

    Attributes:
        operations: Kafka's words for it in capitals, for example `READ`.
        refusal: The broker's words if it does not even describe the topic.
    """

    operations: frozenset[str] = frozenset()
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Passed:
    """A consumer group's committed position on a partition.

    Attributes:
        offset: The next one to be consumed; `BEGINNING` if the group has committed nothing.
        remark: The committer's metadata; at most 4,096 bytes on stock brokers.
        leader_epoch: The highest among the records known at the commit, as Kafka keeps it; None if
            the committer did not say. It says nothing about what a later leader has written.
        is_rewound: Whether that is not a position of the group's: the log was recreated or has
            lost its end, and a member reads it again.
    """

    offset: int
    remark: str = ""
    leader_epoch: int | None = None
    is_rewound: bool = False


@dataclass(frozen=True, slots=True)
class Skipped:
    """Offsets that were deleted before a consumer group had passed them.

    Not each of them need have been a record: some may have been transaction markers.

    Attributes:
        place: Their partition.
        first, last: The range, both included.
    """

    place: TopicPartition
    first: int
    last: int

    def __str__(self) -> str:
        """Return one line for people."""
        lost = f"offsets {self.first} to {self.last}"
        return f"{self.place}: {lost} were deleted before they were read"


class Reader(Protocol):
    """Reads assigned partitions of one Kafka cluster, committed records only.

    Positions belong to the caller: nothing is stored in Kafka. A position that the log no longer
    has is reported by `lost`, never skipped silently.
    """

    @property
    def noted(self) -> int:
        """How many calls of `assign` and `unassign` there were."""

    @property
    def heeded(self) -> int:
        """How many of them the records of the last `read` take into account.

        A waiting read applies a change at once.
        """

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Add partitions from these offsets; one that is assigned already is moved there."""

    def unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop reading these; records of them already fetched may still be returned once."""

    def renew(self) -> None:
        """Forget what was learned about topics: one of them has been recreated.

        Assignments stay, where they were read to. Call it before assigning a topic whose id has
        changed.
        """

    def read(self, timeout_s: float, limit: int) -> Sequence[Record]:
        """Return up to `limit` records, as soon as there is one, or none after the timeout."""

    def position(self, place: TopicPartition) -> int:
        """Return the offset to be read next; `BEGINNING` before anything is known.

        It also passes transaction markers and aborted records at the end of a log, so that
        "read to the end" can be recognised even if the last entry is no record.
        """

    def lost(self) -> Sequence[TopicPartition]:
        """Return, once each, partitions whose position is outside their log."""

    def behind(self) -> Mapping[TopicPartition, int]:
        """Return how many offsets lie between each position and the end of its log.

        As reported with the last fetched records, at most some seconds ago; sends no request.
        """

    def reachable(self) -> bool:
        """Return whether the Kafka cluster answers."""

    def close(self) -> None:
        """Release everything."""


DeliveryCallback = Callable[[int, int, str], None]
"""Called once per record: partition, offset and an empty text if written, else with the fault."""


class Writer(Protocol):
    """Writes to one Kafka cluster, in transactions if it was opened with a transactional id."""

    def begin(self) -> None:
        """Open a transaction.

        Raises:
            TransportFencedError: A successor has taken the transactional id.
        """

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = -1,
        *,
        timestamp: int = 0,
        headers: Headers | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> None:
        """Hand over one record; errors surface at `commit` or `flush`. `timestamp` 0 means now.

        `on_delivery` is called with the outcome, if the writer was opened for that.
        """

    def produce_all(self, topic: str, partition: int, rows: Sequence[Row]) -> None:
        """Hand over many records of one partition, in order, as `produce` would."""

    def commit(self) -> None:
        """Commit the open transaction; returns when it is committed.

        Raises:
            TransportFencedError: A successor has taken the transactional id.
            TransportError: Nothing was committed; the transaction is aborted.
        """

    def abort(self) -> None:
        """Abort the open transaction, if any."""

    def send_offsets(self, positions: Mapping[TopicPartition, Passed], ticket: object) -> None:
        """Let the open transaction move a consumer group on: both happen, or neither.

        Args:
            positions: The group's positions once it is committed.
            ticket: Of the member in whose name this is: `Consumer.ticket`.

        Raises:
            TransportMovedError: The group has assigned them to another member: abort.
            TransportError: Likewise, abort.
        """

    def flush(self, patience_s: float | None = None) -> int:
        """Wait until all records handed over are acknowledged; return how many failed for good.

        Args:
            patience_s: How long; what is not acknowledged then is given up, and has failed. None
                waits as long as the brokers may take.
        """

    def pending(self) -> int:
        """Return how many records were handed over and are not acknowledged yet; no wait.

        Only without a transaction. Records that have failed for good do not count.
        """

    def failed(self) -> int:
        """Return how many records failed for good since the last such call or `flush`; no wait.

        Only without a transaction.
        """

    def close(self) -> None:
        """Release everything, without waiting for records in flight."""


class Membership(Protocol):
    """A worker's share of a node's lanes, by Kafka's group protocol. Spec: K15.

    Attributes:
        giving_up: Called by `poll` with lanes that are to move away, before anybody else can get
            them: not with those that are lost already.
    """

    giving_up: Callable[[frozenset[int]], None]

    def poll(self) -> None:
        """Keep the membership alive and learn of changes; never blocks."""

    def lanes(self) -> frozenset[int]:
        """Return the lanes owned now."""

    def close(self) -> None:
        """Leave the group at once."""


class Consumer(Protocol):
    """A member of a consumer group that shares out one topic. One thread uses it.

    Only committed records are read. Positions are the group's: a partition is read on from the
    group's position, or from its beginning if there is none or its record is deleted. `skipped`
    reports what was deleted before it was read. If the log has lost its end since, and the
    commit names a leader epoch, it is read from where a later leader's records begin.
    """

    @property
    def ticket(self) -> object:
        """What a writer needs to move the group on in this member's name, as of now."""

    def owned(self) -> Mapping[TopicPartition, Passed]:
        """Return the partitions owned as of the last read, and where each was taken up.

        A partition that was lost and assigned again has a new `Passed` object. So has one in which
        records are read at offsets of earlier ones: its topic was deleted and recreated, or has
        lost its end. That object says so.
        """

    def read(self, timeout_s: float, limit: int) -> Sequence[Record]:
        """Return up to `limit` records, and keep the membership alive.

        Raises:
            TransportDeniedError: The brokers refuse this member.
        """

    def skipped(self) -> Sequence[Skipped]:
        """Return, once each, what was deleted before the group had passed it, as of the last read.

        Each range is reported before a record after it is returned. A partition in which the group
        has never committed begins with what is there, and skips nothing. If a member has not moved
        the group on since, its successor reports the range again.
        """

    def pause(self, places: Collection[TopicPartition]) -> None:
        """Read nothing of exactly these partitions until the next call."""

    def begin_again(self) -> None:
        """Read what is owned from where its logs begin: the topic has been recreated.

        Each partition is taken up again with that, whatever the group has committed.
        """

    def commit(self, positions: Mapping[TopicPartition, Passed]) -> None:
        """Move the group on.

        Raises:
            TransportMovedError: The group has assigned them to another member; nothing was
                committed.
            TransportError: Nobody answered.
        """

    def close(self) -> None:
        """Leave the group at once; nothing is committed."""


def keep_quiet(lanes: frozenset[int]) -> None:
    """Do nothing about lanes that move away."""


class Admin(Protocol):
    """Administers the topics of one Kafka cluster."""

    def cluster_id(self) -> str:
        """Return the identity that the broker reports."""

    def create(self, topics: Sequence[TopicSpec]) -> None:
        """Create those that do not exist yet; existing ones are left as they are.

        Raises:
            TransportDeniedError: The broker refuses; carries the broker's message.
        """

    def describe(self, names: Sequence[str]) -> Mapping[str, TopicInfo]:
        """Return those that exist."""

    def settings(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the settings in force of those that exist: all, or those they were made with."""

    def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return high watermarks (open transactions included), of the partitions that exist."""

    def stable_ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return last stable offsets: how far a reader of committed records can get now."""

    def starts(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the first offsets still there, of the partitions that exist."""

    def since(
        self, partitions: Sequence[TopicPartition], at_ms: int
    ) -> Mapping[TopicPartition, int]:
        """Return offsets before which no record is of that moment or later; ends if none is.

        Args:
            partitions: Those that do not exist are left out.
            at_ms: By the time stamps of records, in milliseconds since 1970.
        """

    def agrees_until(self, place: TopicPartition, epoch: int, below: int) -> int:
        """Return how far, up to an offset, a log is what was read of it under an epoch.

        It ends there, or a later leader has written from there on: a log that lost its end and has
        grown again differs from there on.

        Raises:
            TransportUnavailableError: No broker answers.
        """

    def consumed(
        self, topics: Sequence[str], *, besides: Collection[str] = ()
    ) -> Mapping[TopicPartition, int]:
        """Return the offsets that all consumer groups of a topic, besides some, have passed.

        A partition is left out if no group reads its topic, or one that does has committed
        nothing there.
        """

    def readers(
        self, topics: Sequence[str], *, besides: Collection[str] = ()
    ) -> Mapping[str, Mapping[TopicPartition, int]]:
        """Return every group's position, besides some, on these topics: all groups, or none.

        Call it before records are deleted. Groups that read none of them are left out.

        Raises:
            TransportDeniedError: The present principal does not see every group.
            TransportError: Brokers did not answer for theirs.
        """

    def named(self, prefix: str) -> Sequence[str]:
        """Return the topics whose names begin with a prefix."""

    def has_members(self, group: str) -> bool:
        """Return whether a group has a member, perhaps one that died a moment ago."""

    def passed(
        self, group: str, places: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, Passed]:
        """Return how far a group has come, of partitions where it has committed anything."""

    def group_members(self, group: str) -> Sequence[str]:
        """Return the client id of each member of a group, including one that died a moment ago."""

    def delete_before(self, positions: Mapping[TopicPartition, int]) -> None:
        """Delete the records below these offsets."""

    def delete(self, names: Sequence[str]) -> None:
        """Delete topics with their records; those that do not exist are left out.

        No node ever does: operators do, and drills of the lab. Returns when the controller has
        accepted it; brokers may report a topic for a moment longer.

        Raises:
            TransportDeniedError: The broker refuses; others may be gone.
        """

    def change(self, name: str, settings: Mapping[str, str]) -> None:
        """Set these settings of a topic, all or none; its others stay as they are.

        Raises:
            TransportDeniedError: There is no such topic, or the broker refuses.
        """

    def try_create(self, topics: Sequence[TopicSpec]) -> None:
        """Have the brokers judge a creation without doing it; what exists is left out.

        Raises:
            TransportDeniedError: They would refuse, with their own words.
        """

    def rights(self, names: Sequence[str]) -> Mapping[str, Rights]:
        """Return what the present principal may do with those that exist."""

    def group_rights(self, groups: Sequence[str]) -> Mapping[str, Rights]:
        """Return what the present principal may do with groups, whether they exist or not."""

    def copies(self, names: Sequence[str]) -> Mapping[TopicPartition, Copies]:
        """Return how often each partition of those that exist is kept."""

    def broker_settings(self) -> Mapping[int, Mapping[str, str]]:
        """Return the settings in force of every broker that runs, by its number.

        Raises:
            TransportDeniedError: Rights to describe the Kafka cluster's settings are missing.
        """

    def brokers(self) -> Sequence[int]:
        """Return the numbers of the brokers that run."""


class KafkaCluster(Protocol):
    """One Kafka cluster: creates the ports above.

    Every method may raise TransportUnavailableError while no broker answers.
    """

    def reader(
        self,
        name: str,
        *,
        patience_ms: int = PATIENCE_MS,
        gathers: bool = False,
        topics: Collection[str] = (),
    ) -> Reader:
        """Return a new reader.

        Args:
            name: Appears in the broker's metrics as part of the client id.
            patience_ms: How long a broker may hold a fetch that finds nothing. The end of a log is
                noticed, and newly assigned partitions are read, this late; less costs requests.
            gathers: Whether a broker also holds fetches that find something, unless it is much: for
                readers that look now and then, and would pay a request for each record.
            topics: What it will read: their leaders are requested now. For others, the first read
                after they are assigned requests them, and waits for the answer.
        """

    def writer(
        self,
        name: str,
        transactional_id: str | None = None,
        *,
        tells: bool = False,
        is_prompt: bool = False,
        patience_ms: int | None = None,
    ) -> Writer:
        """Return a new writer. With an id, predecessors are fenced and their transactions ended.

        Args:
            name: As for a reader.
            transactional_id: Id of its transactions.
            tells: Whether `on_delivery` is called for each record written, not only for failures.
            is_prompt: Whether a record does not wait to be batched, except for the answer to
                earlier ones: for few records, each of which somebody waits for. While the Kafka
                cluster is away they wait for a minute and a half.
            patience_ms: How long a record may wait for its acknowledgement, and `flush` for all of
                them. None is ten seconds, as long as one request waits for a hung broker; for
                prompt records, the ten seconds apply only to `flush`.
        """

    def membership(self, name: str, group: str, topic: str) -> Membership:
        """Join the group that shares out the partitions of `topic`."""

    def consumer(self, name: str, group: str, topic: str) -> Consumer:
        """Join a group of consumers of `topic`; `name` ends the client id that others see."""

    def admin(self) -> Admin:
        """Return the one admin of this Kafka cluster."""

    def close(self) -> None:
        """Release everything that was made here."""
