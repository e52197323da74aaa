"""What excuses a second copy, and what each excuse must rest on. Spec: K11, K20, DESIGN 6.

A repair must have been asked for; what was moved must come from a queue, and be in one; of another
generation somebody must have told.

A reader that sees a gap asks for its repair in its `.c` topic, under a key that names the outbox
partition and the sender's source. That it asked stays known when the repair is done: the record
that takes the request back has the same key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from mesh.model.findings import FindingKind
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.wire.keys import RepairKey
from streaming.audits.chains import ChainKey
from streaming.audits.finding_register import Finding
from streaming.audits.generations import Generations
from streaming.audits.interest import EndpointKey, SubscriptionHistory
from streaming.audits.names import Names
from streaming.audits.paths import NO_QUEUE
from streaming.audits.pending import Pending
from streaming.audits.recent import Recent
from streaming.audits.row_findings import row_finding
from streaming.tables.rows import DeliveryRow, FrameRow, SourceKey, TopicPartition
from streaming.tables.topics import place_of

EXCUSE_WAIT_S = 10.0
"""How long the request may be read after its repair, in seconds: they are in two topics."""

ASKED_MAX = 10_000
"""Requests for repairs that are remembered for one outbox: anybody who may write to `.c` can make
up more. The oldest are forgotten first; a repair that is still wanted is requested again."""

HELD_MAX = 10_000
"""Doubts of one kind that are held at most: nothing is judged while a Kafka cluster is not read.
Others are reported as not examined."""


class AgainKey(NamedTuple):
    """Records that carry a new generation of a source: its offsets were reused."""

    source: SourceKey
    generation: int


@dataclass(slots=True)
class Excuses:
    """What was asked for, what came unasked, what was moved, and what says it came again.

    Attributes:
        prefix: Start of every topic name.
        asked: Outbox topic -> chains of which a repair was ever asked for.
        unasked: Others that frames with the flag came of, and since when.
        moved: Endpoint, or node from which moved messages come -> the first of them, and since
            when; each is judged once.
        known: Of these, the ones that were judged.
        again: Source and generation -> what is told of them by topic, of which a mesh has only so
            many, if nobody has told of that generation, and since when. Of guaranteed deliveries
            certificates tell.
    """

    prefix: str
    asked: dict[str, Recent[ChainKey, None]] = field(default_factory=dict)
    unasked: Pending[ChainKey, FrameRow] = field(default_factory=Pending)
    moved: Pending[EndpointKey, Finding] = field(default_factory=Pending)
    known: Recent[EndpointKey, None] = field(default_factory=Recent)
    again: Pending[AgainKey, dict[str, Finding]] = field(default_factory=Pending)

    def ask(self, reader: str, sender: str, key: RepairKey) -> None:
        """Take a request for a repair of what a sender's outbox lacked."""
        outbox = TopicNames(self.prefix).outbox(sender, reader, key.message_class)
        source = SourceKey(key.topic_id.hex(), key.partition)
        chain = ChainKey(TopicPartition(outbox, key.outbox_partition), source)
        self.asked.setdefault(outbox, Recent()).put(chain, None, ASKED_MAX)

    def absorb(
        self,
        frames: Sequence[FrameRow],
        deliveries: Sequence[DeliveryRow],
        interest: SubscriptionHistory,
        generations: Generations,
        names: Names,
        now_s: float,
    ) -> Iterator[Finding]:
        """Take the frames and deliveries of a batch; yield what there is no room for.

        What is excused by now takes none: whoever begins to audit reads everything at once.

        Args:
            frames: What links carried, as one micro-batch has summed it up.
            deliveries: What came to endpoints, likewise.
            interest: Who has queues.
            generations: What was told of them.
            names: Names of the topics that ids belong to.
            now_s: The present moment: what is held for too long ends.
        """
        for delivery in deliveries:
            if delivery.is_moved:
                topic = place_of(self.prefix, delivery.place.topic)
                endpoint = EndpointKey(topic.node, topic.other)
                if self._is_strange(endpoint, interest) and not self.moved.hold(
                    endpoint, self._no_queue(delivery, names), now_s, held_max=HELD_MAX
                ):
                    yield self._unexamined(delivery)
        for row in frames:
            if row.is_moved and row.path:
                member = EndpointKey(row.path[0], "")
                if self._is_strange(member, interest) and not self.moved.hold(
                    member, self._no_member(row, names), now_s, held_max=HELD_MAX
                ):
                    yield self._unexamined(row)
            key = ChainKey(row.place, row.chain)
            is_unasked = row.is_repair and not self._is_asked(key)
            if is_unasked and not self.unasked.hold(key, row, now_s, FrameRow.joined, HELD_MAX):
                yield self._unexamined(row)
        direct = [one for one in deliveries if one.message_class == MessageClass.DIRECT]
        marked: list[FrameRow | DeliveryRow] = [*direct, *frames]
        for one in marked:
            if one.generation > generations.of(one.source)[-1].number:
                again = AgainKey(one.source, one.generation)
                if not self.again.hold(again, {}, now_s, held_max=HELD_MAX):
                    yield self._unexamined(one)
                elif one.place.topic not in (told := self.again[again][1]):
                    told[one.place.topic] = self._again(one, names)

    def _is_strange(self, member: EndpointKey, interest: SubscriptionHistory) -> bool:
        """Return whether no queue is known of which messages can have been moved; ask that once."""
        if member in self.known or member in self.moved:
            return False
        if interest.may_move(member):
            self.known.put(member, None, HELD_MAX)
            return False
        return True

    def excuse(self, generations: Generations) -> None:
        """Hold what has been asked for or told by now no longer: others may need the room."""
        for chain in filter(self._is_asked, list(self.unasked)):
            del self.unasked[chain]
        for again in list(self.again):
            if again.generation <= generations.of(again.source)[-1].number:
                del self.again[again]

    def judge(
        self, interest: SubscriptionHistory, generations: Generations, names: Names, now_s: float
    ) -> Iterator[Finding]:
        """Yield what was repaired unasked, moved where there is no queue, or came again unsaid.

        Args:
            interest: Who has queues.
            generations: What was told of them.
            names: Of topics.
            now_s: All that was written before this moment has been read.
        """
        self.excuse(generations)
        for _, findings in self.again.take_due(EXCUSE_WAIT_S, now_s):
            yield from findings.values()
        for member, finding in self.moved.take_due(EXCUSE_WAIT_S, now_s):
            self.known.put(member, None, HELD_MAX)
            if not interest.may_move(member):
                yield finding
        for _, row in self.unasked.take_due(EXCUSE_WAIT_S, now_s):
            yield self._unasked(row, names)

    def _is_asked(self, chain: ChainKey) -> bool:
        return chain in self.asked.get(chain.outbox.topic, ())

    def go_ahead(self, ahead_s: float) -> None:
        """Go on by a clock that is so far ahead."""
        self.unasked.go_ahead(ahead_s)
        self.moved.go_ahead(ahead_s)
        self.again.go_ahead(ahead_s)

    def _unexamined(self, row: FrameRow | DeliveryRow) -> Finding:
        """Return that there was no room for records with such a mark: it may excuse a fault."""
        place = place_of(self.prefix, row.place.topic)
        text = (
            f"{place.link or place.endpoint} has messages marked as sent again, moved or of another"
            " generation, while too many others waited to be examined: nobody knows whether the"
            " marks are true"
        )
        told = row_finding(FindingKind.UNPROVEN, text, row, self.prefix, "", anchor="marks")
        return replace(told, ids=(), first=None, last=None)

    def _again(self, row: FrameRow | DeliveryRow, names: Names) -> Finding:
        place, source = place_of(self.prefix, row.place.topic), names.text(row.source)
        kind, anchor = FindingKind.UNEXPECTED, f"generation {row.generation}"
        text = (
            f"{place.link or place.endpoint} has messages of {source} of generation"
            f" {row.generation}: that its offsets have come again nobody has told"
        )
        return row_finding(kind, text, row, self.prefix, source, anchor=anchor)

    def _no_member(self, row: FrameRow, names: Names) -> Finding:
        source = names.text(row.source)
        text = (
            f"the path {'>'.join(row.path)} does not begin where {source} is published, and"
            f" {row.path[0]} has no queue that could send it on"
        )
        kind = FindingKind.UNPLANNED_PATH
        return row_finding(kind, text, row, self.prefix, source, path=row.path, anchor=NO_QUEUE)

    def _no_queue(self, row: DeliveryRow, names: Names) -> Finding:
        place, source = place_of(self.prefix, row.place.topic), names.text(row.source)
        text = (
            f"{place.endpoint} got messages of {source} that are marked as moved between queues,"
            " and it is none"
        )
        kind = FindingKind.UNEXPECTED
        return row_finding(kind, text, row, self.prefix, source, path=row.path, anchor="moved")

    def _unasked(self, row: FrameRow, names: Names) -> Finding:
        place, source = place_of(self.prefix, row.place.topic), names.text(row.source)
        text = (
            f"{place.node} sends messages of {source} again, as a repair that {place.other}"
            " never asked for"
        )
        kind, anchor = FindingKind.DUPLICATE, f"repair {row.place}"
        return row_finding(kind, text, row, self.prefix, source, anchor=anchor)
