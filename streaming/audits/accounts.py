"""Whether direct messages are accounted for: what is in an outbox against what its reader says.

A direct message may be lost, but never without a word. The ledgers of a reader tell, from offset
to offset, how many messages it read of an outbox partition, those included that it dropped, and
how many frames it passed over unread. Both sides are compared where a batch of the auditor and a
ledger record end at the same offset: there nothing is under way, and what differs stays different.
Spec: DESIGN 6, K18, K29.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mesh.model.findings import FindingKind
from mesh.model.reasons import Discard, DropReason
from mesh.model.state import Ledger, SourceRange
from streaming.audits.finding_register import Finding, records
from streaming.tables.rows import FrameRow, StrayRow, TopicPartition
from streaming.tables.topics import DIRECT, OUTBOX, TopicPlace, is_place, place_of

UNREAD = frozenset(reason for reason in DropReason if reason.discard is Discard.RECORDS)
"""Reasons of a ledger for frames that its node passed over: it counts frames, for nobody can tell
the messages in what was not read. All other reasons are for messages that were read."""

COUNTS_MAX = 256
"""Ends of batches that wait for the other side, at most; then the oldest are no longer compared."""


class CountBelow(NamedTuple):
    """What one side has counted below an offset: messages, and frames that it left unread."""

    offset: int
    messages: int
    unread: int = 0


BEGINNING = CountBelow(0, 0)


@dataclass(slots=True)
class Account:
    """Both sides of one direct outbox partition.

    Attributes:
        sent: What the auditor has read of it.
        reported: What its reader says.
        topic_id: Of the topic that the reader speaks of; empty before its first word.
        most: Messages in the largest frame.
        agreed: Both sides where they were compared last; None where one of them has begun in the
            middle, so that the next comparison only sets it.
        ends: Where batches of the auditor ended, as far as the reader has not told.
        says: Where batches of the reader ended, as far as the auditor has not read.
    """

    sent: CountBelow = BEGINNING
    reported: CountBelow = BEGINNING
    topic_id: str = ""
    most: int = 0
    agreed: tuple[CountBelow, CountBelow] | None = (BEGINNING, BEGINNING)
    ends: list[CountBelow] = field(default_factory=list)
    says: list[CountBelow] = field(default_factory=list)

    def _forget(self, *sides: list[CountBelow]) -> None:
        """Compare nothing of what lies before: a side has not seen all of it."""
        self.agreed = None
        for side in sides:
            side.clear()

    def write(self, first: int, end: int, records_: int, messages: int, most: int) -> None:
        """Take what a batch read of the outbox, offsets `first` to `end`, that one excluded."""
        if first < self.sent.offset:
            self._forget(self.ends, self.says)  # of another topic of this name
        elif first != self.sent.offset or end - first != records_:
            self._forget(self.ends)  # some were deleted before they could be read
        self.most = max(self.most, most)
        self.sent = CountBelow(end, self.sent.messages + messages)
        self.ends = [*self.ends, self.sent][-COUNTS_MAX:]

    def tell(self, read: SourceRange, unread: int) -> None:
        """Add one ledger record of the link's reader; frames before `read.first` were not read."""
        topic_id = read.topic_id.hex()
        if read.first < self.reported.offset or self.topic_id not in ("", topic_id):
            self._forget(self.ends, self.says)
        elif not self.topic_id and read.first > 0:
            self._forget(self.says)
        self.topic_id = topic_id
        self.reported = CountBelow(
            read.next, self.reported.messages + read.messages, self.reported.unread + unread
        )
        self.says = [*self.says, self.reported][-COUNTS_MAX:]

    def begin_again(self) -> None:
        """Start over for a recreated topic; its reader may still report on the former one."""
        self._forget(self.ends, self.says)
        self.sent = CountBelow(0, self.sent.messages)

    def forget(self) -> None:
        """Take it that some of what its reader said is not known."""
        self._forget(self.says)
        self.topic_id = ""

    def compared(self) -> Iterator[tuple[CountBelow, CountBelow]]:
        """Yield what both sides have counted since they were compared before, at each offset."""
        while self.ends and self.says:
            end, says = self.ends[0], self.says[0]
            if end.offset <= says.offset:
                self.ends.pop(0)
            if says.offset <= end.offset:
                self.says.pop(0)
            if end.offset != says.offset:
                continue
            if self.agreed is not None:
                sent, reported = self.agreed
                since = CountBelow(sent.offset, end.messages - sent.messages)
                said = CountBelow(
                    says.offset, says.messages - reported.messages, says.unread - reported.unread
                )
                yield since, said
            self.agreed = (end, says)


@dataclass(slots=True)
class OutboxAccounts:
    """Of all direct outboxes.

    Attributes:
        prefix: Start of every topic name.
        open: By outbox partition.
    """

    prefix: str
    open: dict[TopicPartition, Account] = field(default_factory=dict)

    def frames(self, frames: Sequence[FrameRow], strays: Sequence[StrayRow]) -> None:
        """Take what a batch has read of outboxes; every offset of a direct one is a record."""
        data: dict[TopicPartition, list[FrameRow]] = {}
        odd: dict[TopicPartition, list[StrayRow]] = {}
        for frame in frames:
            data.setdefault(frame.place, []).append(frame)
        for stray in strays:
            odd.setdefault(stray.place, []).append(stray)
        for place in dict.fromkeys((*data, *odd)):
            if self._outbox(place.topic) is None:
                continue
            rows, others = data.get(place, []), odd.get(place, [])
            self.open.setdefault(place, Account()).write(
                min([row.head.offset for row in rows] + [row.first for row in others]),
                max([row.tail.offset for row in rows] + [row.last for row in others]) + 1,
                sum(row.frames for row in rows) + sum(row.count for row in others),
                sum(row.messages for row in rows),
                max((row.most for row in rows), default=0),
            )

    def ledger(self, node: str, ledger: Ledger) -> None:
        """Add what a ledger record of a node reports as read and passed over on direct links."""
        unread: dict[TopicPartition, int] = {}
        for dropped in ledger.dropped:
            if dropped.reason in UNREAD:
                place = TopicPartition(dropped.topic, dropped.partition)
                unread[place] = unread.get(place, 0) + dropped.messages
        for source in ledger.sources:
            outbox = self._outbox(source.topic)
            if outbox is not None and outbox.other == node:
                place = TopicPartition(source.topic, source.partition)
                account = self.open.setdefault(place, Account())
                account.tell(source, unread.get(place, 0))

    def forget_recreated(self, place: TopicPartition) -> None:
        """Take that an outbox was recreated: it holds nothing yet."""
        if (account := self.open.get(place)) is not None:
            account.begin_again()

    def forget(self, node: str) -> None:
        """Start over with a node's reports: some of its ledger records were deleted unread."""
        for place, account in self.open.items():
            outbox = self._outbox(place.topic)
            if outbox is not None and outbox.other == node:
                account.forget()

    def judge(self) -> Iterator[Finding]:
        """Yield what is in an outbox and was neither read nor passed over with a word."""
        for place, account in self.open.items():
            for sent, reported in account.compared():
                most = reported.messages + reported.unread * account.most
                if not reported.messages <= sent.messages <= most:
                    yield self._finding(place, sent, reported)

    def _outbox(self, topic: str) -> TopicPlace | None:
        if not is_place(self.prefix, topic):
            return None
        place = place_of(self.prefix, topic)
        return place if place.kind == OUTBOX and place.letter == DIRECT else None

    def _finding(self, place: TopicPartition, sent: CountBelow, reported: CountBelow) -> Finding:
        outbox = place_of(self.prefix, place.topic)
        first, last = sent.offset, reported.offset - 1
        is_less = reported.messages < sent.messages
        how = "fewer" if is_less else "more"
        return Finding(
            kind=FindingKind.UNACCOUNTED,
            text=f"{outbox.other} says that it read {how} direct messages of {place} than are in"
            f" its frames from {first} to {last}, and that it passed over {reported.unread} frames",
            ids=(records(place, first, last),),
            link=outbox.link,
            source=str(place),
            first=first,
            last=last,
            count=abs(sent.messages - reported.messages),
            anchor=how,
            node=outbox.other,
            evidence=(records(place, first, last),),
        )
