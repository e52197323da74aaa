"""Whether a link carries a message twice, or a node gets it over two links. Spec: DESIGN 3, K11.

The fast tier looks at the intervals of headers and only suspects; frames that it suspects are
read again message by message, because a split frame speaks for offsets that it does not hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from streaming.audits.finding_register import Finding
from streaming.audits.generations import Generations
from streaming.audits.names import Names
from streaming.audits.strangers import forgotten_findings
from streaming.tables.rows import FrameRow, SourceKey, TopicPartition
from streaming.tables.topics import GUARANTEED, place_of

SOURCES_MAX = 50_000
"""Sources by outbox partition and generation that nobody has named; if there are more, they are
forgotten, and that is reported: whoever may write to an outbox can make up more."""


class OriginKey(NamedTuple):
    """Messages of one source on one outbox partition."""

    outbox: TopicPartition
    source: SourceKey
    generation: int


class ArrivalKey(NamedTuple):
    """Messages of one source at one node that got them over links."""

    receiver: str
    source: SourceKey
    generation: int


@dataclass(frozen=True, slots=True)
class Interval:
    """Origin offsets from `first` to `last`, both included."""

    first: int
    last: int

    def __or__(self, other: Interval) -> Interval:
        """Return the smallest interval around both."""
        return Interval(min(self.first, other.first), max(self.last, other.last))

    def overlaps(self, other: Interval) -> bool:
        """Return whether an offset is in both."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class FrameSuspicion:
    """Frames to read again.

    Attributes:
        outboxes: Where; several for a message that may have come over several links.
        source: Messages of this source.
        generation: Of the source.
        since: Only messages in records from this outbox offset on are news; with several
            outboxes, only source offsets from here on.
        until: Read up to this outbox offset; with several outboxes, this source offset.
        receiver: Node that may get them over several links, or empty.
    """

    outboxes: tuple[TopicPartition, ...]
    source: SourceKey
    generation: int
    since: int
    until: int
    receiver: str = ""


@dataclass(slots=True)
class Origins:
    """Which origin offsets have crossed where.

    Attributes:
        prefix: Start of every topic name.
        reached: Highest origin offset per outbox partition and source.
        arrived: Per receiver and source: outbox partition -> interval of origin offsets.
        ways: How many of these there ever were.
        forgotten: Outbox partitions of which sources were forgotten: any may have come that way.
    """

    prefix: str
    reached: dict[OriginKey, int] = field(default_factory=dict)
    arrived: dict[ArrivalKey, dict[TopicPartition, Interval]] = field(default_factory=dict)
    ways: int = 0
    forgotten: dict[TopicPartition, None] = field(default_factory=dict)

    def absorb(self, rows: Sequence[FrameRow]) -> Iterator[FrameSuspicion]:
        """Take the frames of a batch; yield what must be looked at closely."""
        groups: dict[OriginKey, list[FrameRow]] = {}
        for row in rows:
            if row.is_moved:
                continue  # late by right, and a channel may have had them over the link before
            if not row.is_repair and row.kind == "data":
                groups.setdefault(OriginKey(row.place, row.source, row.generation), []).append(row)
        for key, group in groups.items():
            interval = Interval(min(row.first for row in group), max(row.last for row in group))
            reached = self.reached.get(key, -1)
            if interval.first <= reached or any(row.late for row in group):
                yield FrameSuspicion(
                    (key.outbox,),
                    key.source,
                    key.generation,
                    min(row.head.offset for row in group),
                    max(row.tail.offset for row in group),
                )
            self.reached[key] = max(reached, interval.last)
            yield from self._arrive(key, interval)

    def forget_strangers(self, names: Names, generations: Generations) -> Iterator[Finding]:
        """Forget what nobody has named if there is too much of it, and yield that.

        Args:
            names: Of topics.
            generations: Of their offsets: others than these are made up as well.
        """

        def is_known(key: OriginKey | ArrivalKey) -> bool:
            newest = generations.of(key.source)[-1].number
            return names.place(key.source) is not None and key.generation <= newest

        if len(self.reached) <= SOURCES_MAX:
            return
        gone = [key.outbox for key in self.reached if not is_known(key)]
        if len(gone) <= SOURCES_MAX:
            return  # a large mesh has as many of its own
        self.reached = {key: last for key, last in self.reached.items() if is_known(key)}
        self.arrived = {key: known for key, known in self.arrived.items() if is_known(key)}
        guaranteed = [one for one in gone if place_of(self.prefix, one.topic).letter == GUARANTEED]
        self.forgotten.update(dict.fromkeys(guaranteed))
        self.ways += 1
        yield from forgotten_findings(self.prefix, gone, "origins", "copies")

    def _arrive(self, key: OriginKey, interval: Interval) -> Iterator[FrameSuspicion]:
        receiver = place_of(self.prefix, key.outbox.topic).other
        arrivals = self.arrived.setdefault(ArrivalKey(receiver, key.source, key.generation), {})
        others = [
            outbox
            for outbox, known in arrivals.items()
            if outbox != key.outbox and known.overlaps(interval)
        ]
        known = arrivals.get(key.outbox)
        self.ways += known is None
        arrivals[key.outbox] = interval if known is None else known | interval
        if others:
            yield FrameSuspicion(
                tuple(sorted((key.outbox, *others))),
                key.source,
                key.generation,
                interval.first,
                interval.last,
                receiver,
            )

    def carriers(self, receiver: str, source: SourceKey) -> Sequence[TopicPartition]:
        """Return the outbox partitions over which a node got messages of a source, or may have."""
        found: dict[TopicPartition, None] = {}
        for key, outboxes in self.arrived.items():
            if key.receiver == receiver and key.source == source:
                found.update(dict.fromkeys(outboxes))
        for outbox in self.forgotten:
            if place_of(self.prefix, outbox.topic).other == receiver:
                found[outbox] = None
        return sorted(found)
