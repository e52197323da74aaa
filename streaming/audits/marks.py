"""Marks that excuse a second copy, and what they must stand on. Spec: K11, K20, DESIGN 6.

A repair must have been asked for; what was moved must come from a queue, and be in one; of another
generation somebody must have told.

A reader that sees a gap asks for its repair in its `.c` topic, under a key that names the outbox
partition and the sender's source. That it asked stays known when the repair is done: the record
that takes the request back has the same key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mesh.model.frames import MessageClass
from streaming.audits.chains import ChainKey
from streaming.audits.findings import Finding, FindingKind, message_range, records
from streaming.audits.interest import EndpointKey, Interest
from streaming.audits.names import Names
from streaming.audits.turns import Turns
from streaming.tables.rows import DeliveryRow, FrameRow, SourceKey, TopicPartition
from streaming.tables.topics import place_of

PATIENCE_S = 10.0
"""How long the request may be read after its repair, in seconds: they are in two topics."""

_WORDS = 5

_DIGITS_MAX = 10
"""Of a partition: Python reads no numbers of thousands of digits."""


class AgainKey(NamedTuple):
    """Records of one topic that say that offsets of a source have come again."""

    topic: str
    source: SourceKey
    generation: int


@dataclass(slots=True)
class Marks:
    """What was asked for, what came unasked, what was moved, and what says it came again.

    Attributes:
        prefix: Start of every topic name.
        asked: Chains of which a repair was ever asked for.
        unasked: Others that frames with the flag came of, and since when.
        moved: Endpoint, or node from which moved messages come -> the first of them, and since
            when; each is judged once.
        known: Of these, the ones that were judged.
        again: Source and generation, where they came -> what is told of them if nobody has told of
            that generation, and since when. Of guaranteed deliveries certificates tell.
    """

    prefix: str
    asked: dict[ChainKey, None] = field(default_factory=dict)
    unasked: dict[ChainKey, tuple[float, FrameRow]] = field(default_factory=dict)
    moved: dict[EndpointKey, tuple[float, Finding]] = field(default_factory=dict)
    known: dict[EndpointKey, None] = field(default_factory=dict)
    again: dict[AgainKey, tuple[float, Finding]] = field(default_factory=dict)

    def ask(self, reader: str, sender: str, key: str) -> None:
        """Take the key of a request; one that nobody can read is no request."""
        words = key.split(" ")
        if len(words) != _WORDS:
            return
        if any(not one.isdecimal() or len(one) > _DIGITS_MAX for one in words[2:4]):
            return
        outbox = f"{self.prefix}{sender}.to.{reader}.{words[4][:1]}"
        source = SourceKey(words[1], int(words[2]))
        self.asked[ChainKey(TopicPartition(outbox, int(words[3])), source)] = None

    def absorb(
        self,
        frames: Sequence[FrameRow],
        deliveries: Sequence[DeliveryRow],
        names: Names,
        now_s: float,
    ) -> None:
        """Take the frames and deliveries of a batch."""
        for delivery in deliveries:
            if delivery.is_moved:
                topic = place_of(self.prefix, delivery.place.topic)
                endpoint = EndpointKey(topic.node, topic.other)
                if endpoint not in self.known:
                    self.moved.setdefault(endpoint, (now_s, _no_queue(endpoint, delivery, names)))
        for row in frames:
            if row.is_moved and row.path and EndpointKey(row.path[0], "") not in self.known:
                member = EndpointKey(row.path[0], "")
                self.moved.setdefault(member, (now_s, self._no_member(row, names)))
            key = ChainKey(row.place, row.chain)
            if not row.is_repair or key in self.asked:
                continue
            since_s, known = self.unasked.get(key, (now_s, None))
            self.unasked[key] = (since_s, row if known is None else known.joined(row))
        direct = [one for one in deliveries if one.message_class == MessageClass.DIRECT]
        marked: list[FrameRow | DeliveryRow] = [*direct, *frames]
        for one in marked:
            if one.generation > 0:
                again = AgainKey(one.place.topic, one.source, one.generation)
                self.again.setdefault(again, (now_s, self._again(one, names)))

    def judge(
        self, interest: Interest, turns: Turns, names: Names, now_s: float
    ) -> Iterator[Finding]:
        """Yield what was repaired unasked, moved where there is no queue, or came again unsaid.

        Args:
            interest: Who has queues.
            turns: What was told of generations.
            names: Of topics.
            now_s: All that was written before this moment has been read.
        """
        for again, (since_s, finding) in list(self.again.items()):
            if now_s - since_s >= PATIENCE_S:
                del self.again[again]
                if again.generation > turns.of(again.source)[-1].generation:
                    yield finding
        for member, (since_s, finding) in list(self.moved.items()):
            if now_s - since_s >= PATIENCE_S:
                del self.moved[member]
                self.known[member] = None
                if not interest.may_move(member):
                    yield finding
        for key, (since_s, row) in list(self.unasked.items()):
            if key in self.asked:
                del self.unasked[key]
            elif now_s - since_s >= PATIENCE_S:
                del self.unasked[key]
                yield self._finding(row, names)

    def go_ahead(self, ahead_s: float) -> None:
        """Go on by a clock that is so far ahead."""
        self.unasked = {key: (at + ahead_s, one) for key, (at, one) in self.unasked.items()}
        self.moved = {key: (at + ahead_s, one) for key, (at, one) in self.moved.items()}
        self.again = {key: (at + ahead_s, one) for key, (at, one) in self.again.items()}

    def _again(self, row: FrameRow | DeliveryRow, names: Names) -> Finding:
        place, source = place_of(self.prefix, row.place.topic), names.text(row.source)
        if isinstance(row, FrameRow):
            count, bounds = row.messages, (row.head.offset, row.tail.offset)
        else:
            count, bounds = row.digest.count, (row.record_first, row.record_last)
        return Finding(
            kind=FindingKind.UNEXPECTED,
            text=f"{place.link or place.endpoint} has messages of {source} of generation"
            f" {row.generation}: that its offsets have come again nobody has told",
            ids=(message_range(source, row.generation, row.first, row.last),),
            link=place.link,
            endpoint=place.endpoint,
            source=source,
            first=row.first,
            last=row.last,
            count=count,
            anchor=f"generation {row.generation}",
            node=place.node,
            evidence=(records(row.place, *bounds),),
        )

    def _no_member(self, row: FrameRow, names: Names) -> Finding:
        place, source = place_of(self.prefix, row.place.topic), names.text(row.source)
        told = ">".join(row.path)
        return Finding(
            kind=FindingKind.UNPLANNED_PATH,
            text=f"the path {told} does not begin where {source} is published, and {row.path[0]}"
            " has no queue that could send it on",
            ids=(message_range(source, row.generation, row.first, row.last),),
            link=place.link,
            path=row.path,
            source=source,
            first=row.first,
            last=row.last,
            count=row.messages,
            anchor="moved",
            node=place.node,
            evidence=(records(row.place, row.head.offset, row.tail.offset),),
        )

    def _finding(self, row: FrameRow, names: Names) -> Finding:
        place, source = place_of(self.prefix, row.place.topic), names.text(row.source)
        return Finding(
            kind=FindingKind.DUPLICATE,
            text=f"{place.node} sends messages of {source} again, as a repair that {place.other}"
            " never asked for",
            ids=(message_range(source, row.generation, row.first, row.last),),
            link=place.link,
            source=source,
            first=row.first,
            last=row.last,
            count=row.messages,
            anchor=f"repair {row.place}",
            node=place.node,
            evidence=(records(row.place, row.head.offset, row.tail.offset),),
        )


def _no_queue(endpoint: EndpointKey, row: DeliveryRow, names: Names) -> Finding:
    source = names.text(row.source)
    return Finding(
        kind=FindingKind.UNEXPECTED,
        text=f"{endpoint} got messages of {source} that are marked as moved between queues, and it"
        " is none",
        ids=(message_range(source, row.generation, row.first, row.last),),
        endpoint=str(endpoint),
        path=row.path,
        source=source,
        first=row.first,
        last=row.last,
        count=row.digest.count,
        anchor="moved",
        node=endpoint.node,
        evidence=(records(row.place, row.record_first, row.record_last),),
    )
