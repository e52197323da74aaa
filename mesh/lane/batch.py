"""What one transaction of a lane is to write, and the account it gives of itself.

Guaranteed copies, positions, chain state and ledger are in the transaction. Direct copies never
go before a position beyond them is committed, so that a crash may lose them but never double
them: mostly an earlier commit has reserved that ahead, else they wait for this one.
Spec: K12, K18, DESIGN 5.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mesh.model.facts import Fact, FactKey
from mesh.model.frames import MessageClass
from mesh.model.inputs import Input
from mesh.model.reasons import DropReason, Reason
from mesh.model.state import (
    Cut,
    DeliveredCount,
    Dropped,
    Ledger,
    NotForwarded,
    SentCount,
    SourceRange,
)
from mesh.model.topics import TopicNames
from mesh.transport.port import Headers, Row, TopicPartition
from mesh.wire.keys import fact_key
from mesh.wire.state import encode_fact, encode_ledger

DirectRows = tuple[str, int, Sequence[Row]]
"""Topic, partition, and what is to be written there."""

Rows = defaultdict[tuple[str, int], list[Row]]
"""Topic and partition -> what is to be written there, in order."""

AHEAD_LEAST = 16
AHEAD_MAX = 4_096
"""How many offsets of a direct source a commit reserves: twice what it has read, within these."""

RESERVED_MS = 1_000
"""How long a reservation may be used after its commit was begun; a successor waits so long before
it looks where the log ends. Spec: K18."""

LISTED_MAX = 250
"""Cuts, and endpoints, that one record of the ledger names: with the longest names 70 kB. There
are as many cuts as nodes times partitions when a lane begins, and one that does not fit into a
record could never be committed. Spec: K6."""


@dataclass(slots=True)
class Reading:
    """What a batch has read of one source partition."""

    topic_id: bytes
    generation: int
    first: int
    next: int
    messages: int = 0
    leader_epoch: int = -1

    @property
    def ahead(self) -> int:
        """Return how many more offsets to reserve if it is direct: for about two more batches."""
        return min(AHEAD_MAX, max(AHEAD_LEAST, 2 * (self.next - self.first)))


@dataclass(slots=True)
class Batch:
    """What a lane has decided since its last transaction: the next one writes all of it.

    Attributes:
        node, lane, lane_epoch: Who decides.
        opened_ms: When it was begun.
        rows: What is to be written in the transaction, as far as nobody has taken it yet.
        notices: What the node is to know beside the facts, once it is committed.
        records: Records read and delivered so far; it closes at a limit. Spec: K17.
        is_awaited: Whether something waits for its commit.
        waiting: Direct sources read beyond what was reserved: their copies wait for the commit.
        direct: What waits.
        unwritten: First offset of each source of which something waits.
        taking: What is being read: the source, and the first offset.
        begins: Committed positions of sources of which this batch tells another, without reading.
        needless: Copies that are needless at most, by link or endpoint: a wider filter than it
            asked for selects them. Spec: DESIGN 3.
        parents: Traces of applications that are followed; see `mesh.lane.traces`.
    """

    node: str
    lane: int
    lane_epoch: int
    names: TopicNames
    opened_ms: int
    rows: Rows = field(default_factory=lambda: defaultdict(list))
    notices: list[Input] = field(default_factory=list)
    records: int = 0
    is_awaited: bool = False
    waiting: dict[TopicPartition, None] = field(default_factory=dict)
    direct: list[DirectRows] = field(default_factory=list)
    unwritten: dict[TopicPartition, int] = field(default_factory=dict)
    taking: tuple[TopicPartition, int] | None = None
    begins: dict[TopicPartition, int] = field(default_factory=dict)
    readings: dict[TopicPartition, Reading] = field(default_factory=dict)
    facts: dict[FactKey, Fact | None] = field(default_factory=dict)
    cuts: list[Cut] = field(default_factory=list)
    _sent: dict[tuple[str, MessageClass], list[int]] = field(default_factory=dict)
    _delivered: Counter[tuple[str, MessageClass]] = field(default_factory=Counter)
    _refused: Counter[tuple[str, Reason, MessageClass]] = field(default_factory=Counter)
    needless: Counter[str] = field(default_factory=Counter)
    parents: dict[bytes, None] = field(default_factory=dict)
    _dropped: Counter[tuple[str, TopicPartition]] = field(default_factory=Counter)

    def write(
        self,
        at: TopicPartition,
        value: bytes | None,
        key: bytes | None = None,
        headers: Headers | None = None,
    ) -> None:
        """Have one record written."""
        self.rows[at.topic, at.partition].append((value, key, 0, headers))

    def write_rows(self, topic: str, partition: int, rows: Sequence[Row]) -> None:
        """Have records written, in their order."""
        self.rows[topic, partition] += rows

    def read(
        self,
        source: TopicPartition,
        topic_id: bytes,
        generation: int,
        first: int,
        last: int,
        messages: int,
        *,
        records: int = 1,
        leader_epoch: int | None = None,
    ) -> None:
        """Account for messages in so many records of a source, offsets `first` to `last`."""
        reading = self.readings.get(source)
        if reading is None:
            reading = self.readings[source] = Reading(topic_id, generation, first, first)
        reading.topic_id, reading.generation = topic_id, generation
        if leader_epoch is not None:
            reading.leader_epoch = leader_epoch
        elif reading.next != last + 1:
            reading.leader_epoch = -1  # of what lies before that now nothing is known
        reading.next = last + 1
        reading.messages += messages
        self.records += records

    def count_sent(self, neighbour: str, message_class: MessageClass, messages: int) -> None:
        """Account for one frame."""
        counts = self._sent.setdefault((neighbour, message_class), [0, 0])
        counts[0] += messages
        counts[1] += 1

    def count_delivered(self, endpoint: str, message_class: MessageClass, messages: int) -> None:
        """Account for deliveries to an endpoint."""
        self._delivered[endpoint, message_class] += messages
        self.records += messages

    def count_not_forwarded(
        self, reasons: Sequence[tuple[str, Reason]], message_class: MessageClass, messages: int
    ) -> None:
        """Account for messages that did not leave on these links, each with its one reason."""
        for neighbour, reason in reasons:
            self._refused[neighbour, reason, message_class] += messages

    def count_dropped(self, reason: DropReason, source: TopicPartition, messages: int = 1) -> None:
        """Account for messages of a source that went nowhere, or headers that were removed."""
        self._dropped[reason, source] += messages

    def count_widened(self, names: Sequence[str], messages: int) -> None:
        """Account for copies that may be needless, each for a link or endpoint."""
        for name in names:
            self.needless[name] += messages

    def count_lost(
        self,
        reason: DropReason,
        source: TopicPartition,
        messages: int,
        message_class: MessageClass,
        *,
        endpoint: str = "",
        neighbour: str = "",
    ) -> None:
        """Account for messages counted as written which one target does not get after all."""
        self.count_dropped(reason, source, messages)
        if endpoint:
            self._delivered[endpoint, message_class] -= messages
        if neighbour:
            self._sent[neighbour, message_class][0] -= messages

    def have_wait(
        self, at: TopicPartition, topic: str, partition: int, rows: Sequence[Row]
    ) -> None:
        """Take direct copies of what is being read of a source: they wait for the commit."""
        self.direct.append((topic, partition, rows))
        self.note_unwritten(at, self.unwritten)

    def wait_for_commit(self, at: TopicPartition) -> None:
        """Have copies of a direct source wait: it is read beyond what is reserved."""
        self.waiting[at] = None
        self.is_awaited = True

    def note_unwritten(self, at: TopicPartition, firsts: dict[TopicPartition, int]) -> None:
        """Record the first offset of a source of which a copy is not in Kafka yet.

        Rows of anything but what is being read only announce a loss, and are no copies.
        """
        if self.taking is not None and self.taking[0] == at:
            firsts.setdefault(*self.taking)

    def note(self, fact: Fact) -> None:
        """Have a fact committed with this batch; a later one of the same key replaces it."""
        self.facts[fact.key] = fact

    def forget(self, key: FactKey) -> None:
        """Have this batch remove what is kept under a key."""
        self.facts[key] = None

    def cut(
        self, at: TopicPartition, topic_id: bytes, position: int, cuts: Mapping[str, int]
    ) -> None:
        """Note from which position of a source on the routing knows these. Spec: K25."""
        self.cuts += [
            Cut(at.topic, topic_id, at.partition, position, uuid, offset)
            for uuid, offset in cuts.items()
        ]

    def finish(self, partition: int, link_numbers: Mapping[str, int]) -> Ledger:
        """Have progress and ledger written as well; return the ledger.

        Args:
            partition: Of both topics.
            link_numbers: Of the links that a change made, by outbox topic. Spec: K12.
        """
        ledger = self.ledger()
        self.rows[self.names.progress(self.node), partition] += [
            (
                None if fact is None else encode_fact(fact, link_numbers.get(fact.at.topic, 0)),
                fact_key(key),
                0,
                None,
            )
            for key, fact in self.facts.items()
        ]
        self.rows[self.names.ledger(self.node), partition] += [
            (encode_ledger(one), None, 0, None) for one in in_records(ledger)
        ]
        return ledger

    def ledger(self) -> Ledger:
        """Return the account of this batch."""
        return Ledger(
            node=self.node,
            lane=self.lane,
            lane_epoch=self.lane_epoch,
            sources=[
                SourceRange(
                    at.topic, read.topic_id, at.partition, read.first, read.next, read.messages
                )
                for at, read in self.readings.items()
            ],
            sent=[
                SentCount(neighbour, message_class, messages, frames)
                for (neighbour, message_class), (messages, frames) in self._sent.items()
            ],
            delivered=[DeliveredCount(*key, count) for key, count in self._delivered.items()],
            not_forwarded=[
                NotForwarded(neighbour, reason, message_class, count)
                for (neighbour, reason, message_class), count in self._refused.items()
            ],
            dropped=[
                Dropped(reason, at.topic, at.partition, count)
                for (reason, at), count in self._dropped.items()
            ],
            cuts=self.cuts,
        )


def in_records(ledger: Ledger) -> Iterator[Ledger]:
    """Yield an account as the ledger holds it: what may be many takes several records."""
    listed = max(1, len(ledger.delivered), len(ledger.cuts))
    for begin in range(0, listed, LISTED_MAX):
        some = slice(begin, begin + LISTED_MAX)
        part = replace(ledger, delivered=ledger.delivered[some], cuts=ledger.cuts[some])
        if begin:
            part = replace(part, sources=(), sent=(), not_forwarded=(), dropped=())
        yield part
