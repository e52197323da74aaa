"""Whether every hop has passed a message: what makes late messages missing ones. Spec: K30.

A ticket follows the messages of one source up to a bound: from the position of the node that
reads the source to the frames that came of it, and on from there. A hop whose reader stands still
keeps the ticket open for ever: time alone never makes a loss.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mesh.model.state import Progress, ProgressKind
from streaming.audits.chains import ChainHead, ChainKey
from streaming.audits.names import Names
from streaming.tables.rows import SourceKey, TopicPartition
from streaming.tables.topics import place_of

SETTLE_S = 3.0
"""How long the markers of one transaction may take to reach all its topics, in seconds."""

SENT_PATIENCE_S = 30.0
"""How long a frame that a node says it sent may stay unseen before it counts as not sent."""


class PositionKey(NamedTuple):
    """A source partition as one node reads it."""

    node: str
    place: TopicPartition


@dataclass(slots=True)
class Step:
    """One hop that must pass.

    Attributes:
        reader: Which node reads which partition.
        target: Position it must reach.
        accepted: For an outbox: the last offset of the sender's source that it must accept.
        chain: For an outbox: that source.
        passed_s: When it was seen to have passed, on the auditor's clock, or None.
        passed_batch: The batch in which that was.
    """

    reader: PositionKey
    target: int
    accepted: int = -1
    chain: SourceKey | None = None
    passed_s: float | None = None
    passed_batch: int = -1


@dataclass(slots=True)
class Ticket:
    """The way of one source's messages up to a bound.

    Attributes:
        bound: Last source offset that is followed.
        steps: Hops that are still open.
        is_done: Whether every hop has passed.
    """

    bound: int
    steps: list[Step] = field(default_factory=list)
    is_done: bool = False


@dataclass(frozen=True, slots=True)
class Now:
    """The moment of a judgement.

    Attributes:
        clock_s: The auditor's monotonic clock, in seconds.
        batch: Last micro-batch taken.
        is_idle: Whether Kafka has had nothing new for a while.
    """

    clock_s: float
    batch: int
    is_idle: bool


@dataclass(slots=True)
class Passing:
    """How far every node is with every source it reads.

    Attributes:
        prefix: Start of every topic name.
        positions: Next offset to read.
        sent: Chain -> last source offset that the sender says it sent.
        accepted: Chain -> last source offset that the receiver accepted.
        held: Targets that were left out, by the number of the last time: how far they are written,
            or less than 0. Two partitions tell of them, in any order. Spec: K20.
        generations: Of the offsets of a source, where that is not 0. Spec: K9.
    """

    prefix: str
    positions: dict[PositionKey, int] = field(default_factory=dict)
    sent: dict[ChainKey, int] = field(default_factory=dict)
    accepted: dict[ChainKey, int] = field(default_factory=dict)
    held: dict[ChainKey, tuple[int, int]] = field(default_factory=dict)
    generations: dict[TopicPartition, int] = field(default_factory=dict)

    def read(self, node: str, progress: Progress) -> None:
        """Take a progress record of a node. Spec: K12."""
        place = TopicPartition(progress.topic, progress.partition)
        topic_id = b"" if progress.topic_id is None else progress.topic_id
        chain = ChainKey(place, SourceKey(topic_id.hex(), progress.source_partition))
        match progress.kind:
            case ProgressKind.SOURCE:
                self.positions[PositionKey(node, place)] = progress.offset
                if progress.generation:
                    self.generations[place] = progress.generation
            case ProgressKind.SENT:
                self.sent[chain] = progress.offset
            case ProgressKind.ACCEPTED:
                self.accepted[chain] = progress.offset
            case ProgressKind.HELD:
                number, before = self.held.get(chain, (-1, 0))
                if progress.ahead > number or (progress.ahead == number and before >= 0):
                    self.held[chain] = (progress.ahead, progress.offset)
            case _:
                pass

    def open(self, place: TopicPartition, bound: int) -> Ticket:
        """Return a ticket for the messages of an ingress partition up to an offset."""
        node = place_of(self.prefix, place.topic).node
        return Ticket(bound, [Step(PositionKey(node, place), bound + 1)])

    def advance(
        self,
        ticket: Ticket,
        heads: Mapping[ChainKey, ChainHead],
        names: Names,
        now: Now,
    ) -> None:
        """Follow a ticket as far as the nodes have come."""
        remaining: list[Step] = []
        for step in ticket.steps:
            if not self._has_settled(step, heads, names, now):
                remaining.append(step)
            else:
                remaining.extend(self._next_steps(step, heads, names))
        ticket.steps = remaining
        ticket.is_done = not remaining

    def _has_settled(
        self, step: Step, heads: Mapping[ChainKey, ChainHead], names: Names, now: Now
    ) -> bool:
        if not self._has_passed(step):
            return False
        if step.passed_s is None or now.clock_s < step.passed_s:
            step.passed_s, step.passed_batch = now.clock_s, now.batch
            return False
        waited_s = now.clock_s - step.passed_s
        has_read_on = now.batch > step.passed_batch or now.is_idle
        if waited_s < SETTLE_S or not has_read_on:
            return False
        return waited_s >= SENT_PATIENCE_S or self._has_seen_sent(step, heads, names)

    def _has_passed(self, step: Step) -> bool:
        if self.positions.get(step.reader, 0) < step.target or self._holds(step.reader.node):
            return False
        if step.chain is None:
            return True
        accepted = self.accepted.get(ChainKey(step.reader.place, step.chain))
        return accepted is None or accepted >= step.accepted

    def _holds(self, node: str) -> TopicPartition | None:
        """Return a target that a node cannot write just now, if there is one. Spec: K20."""
        for held, (_, offset) in self.held.items():
            if offset >= 0 and place_of(self.prefix, held.outbox.topic).node == node:
                return held.outbox
        return None

    def _has_seen_sent(self, step: Step, heads: Mapping[ChainKey, ChainHead], names: Names) -> bool:
        """Say whether all frames that the node says it sent of this source have been read."""
        source = names.key(step.reader.place)
        for chain, last in self.sent.items():
            is_from_here = place_of(self.prefix, chain.outbox.topic).node == step.reader.node
            if chain.source == source and is_from_here:
                head = heads.get(chain)
                if head is None or head.last < last:
                    return False
        return True

    def _next_steps(
        self, step: Step, heads: Mapping[ChainKey, ChainHead], names: Names
    ) -> Iterator[Step]:
        source = names.key(step.reader.place)
        for chain, head in heads.items():
            outbox = place_of(self.prefix, chain.outbox.topic)
            if chain.source == source and outbox.node == step.reader.node:
                yield Step(
                    PositionKey(outbox.other, chain.outbox),
                    head.offset + 1,
                    accepted=head.last,
                    chain=chain.source,
                )

    def where(self, ticket: Ticket) -> str:
        """Return the hop that a ticket waits for, for people."""
        for step in ticket.steps:
            place = f"{step.reader.node} at {step.reader.place}"
            position = self.positions.get(step.reader, 0)
            if position < step.target:
                return f"{place}: read up to {position} of {step.target}"
            if (held := self._holds(step.reader.node)) is not None:
                return f"{place}: holds what is for {held}"
            if not self._has_passed(step):
                return f"{place}: has not accepted all up to {step.accepted}, a gap is repaired"
        return "transactions to settle"
