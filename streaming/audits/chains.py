"""The chain of each outbox partition and source: what was sent goes on where it ended. Spec: K11.

Guaranteed outboxes only: a direct frame that never came is no fault.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from mesh.model.findings import FindingKind
from mesh.model.frames import generation_and_offset
from streaming.audits.finding_register import Finding, message_range, records
from streaming.audits.names import Names
from streaming.audits.row_findings import row_finding
from streaming.audits.strangers import forgotten_findings
from streaming.tables.rows import FramePlace, FrameRow, SourceKey, TopicPartition
from streaming.tables.topics import GUARANTEED, place_of

NO_OFFSET = -1

CHAINS_MAX = 50_000
"""Chains of sources that nobody has named; if there are more, they are forgotten, and that is
reported: whoever may write to an outbox can make up more. A mesh has as many others as it has
topics, and while a Kafka cluster is not read, it names none of its own."""


class ChainKey(NamedTuple):
    """One chain: an outbox partition and a source of its sender."""

    outbox: TopicPartition
    source: SourceKey


@dataclass(frozen=True, slots=True)
class ChainHead:
    """How far a chain goes.

    Attributes:
        last: Position in the source of what was sent last.
        offset: Offset of the last frame in the outbox; -1: that one was recreated since.
    """

    last: int
    offset: int


@dataclass(slots=True)
class Chains:
    """How far every chain goes.

    Attributes:
        prefix: Start of every topic name.
        heads: By chain.
        begins: Offset of the first record read of each outbox partition: above 0 the records
            before it are gone, and chains may begin anywhere.
    """

    prefix: str
    heads: dict[ChainKey, ChainHead] = field(default_factory=dict)
    begins: dict[TopicPartition, int] = field(default_factory=dict)
    forgotten: dict[TopicPartition, int] = field(default_factory=dict)

    def absorb(self, rows: Sequence[FrameRow], names: Names) -> Iterator[Finding]:
        """Take the frames of a batch, in outbox order; yield the gaps."""
        for row in rows:
            self.begins.setdefault(row.place, row.head.offset)
        chains: dict[ChainKey, list[FrameRow]] = {}
        for row in rows:
            is_judged = place_of(self.prefix, row.place.topic).letter == GUARANTEED
            if is_judged and row.kind == "gap":
                yield self._announced(row, names)
            if is_judged and not row.is_repair:
                chains.setdefault(ChainKey(row.place, row.chain), []).append(row)
        for key, group in chains.items():
            yield from self._follow(key, group, names)
        yield from self._forget_strangers(names)

    def _forget_strangers(self, names: Names) -> Iterator[Finding]:
        if len(self.heads) <= CHAINS_MAX:
            return
        gone = [key for key in self.heads if names.place(key.source) is None]
        if len(gone) <= CHAINS_MAX:
            return  # a large mesh has as many of its own
        for key in gone:
            last = max(self.heads.pop(key).offset, self.forgotten.get(key.outbox, NO_OFFSET))
            self.forgotten[key.outbox] = last
        outboxes = [key.outbox for key in gone]
        yield from forgotten_findings(self.prefix, outboxes, "chains", "gaps")

    def forget_recreated(self, place: TopicPartition) -> None:
        """Forget an outbox that was recreated: in the new one chains may begin anywhere.

        How far they went stays known: who has accepted less lacks something, and what the reader
        has sent on is on its way.
        """
        for key in [key for key in self.heads if key.outbox == place]:
            self.heads[key] = replace(self.heads[key], offset=NO_OFFSET)
        self.forgotten.pop(place, None)
        if place in self.begins:
            self.begins[place] = 1

    def _follow(self, key: ChainKey, rows: Sequence[FrameRow], names: Names) -> Iterator[Finding]:
        head = min((row.head for row in rows), key=lambda frame: frame.offset)
        tail = max((row.tail for row in rows), key=lambda frame: frame.offset)
        expected = self._expected(key, head)
        if head.previous > expected:
            yield self._gap(key, expected, head, names)
        for row in rows:
            for broken in row.broken:
                if broken.frame.previous > broken.expected:
                    yield self._gap(key, broken.expected, broken.frame, names)
        # The last of some frames may be one of before once more: that breaks the chain.
        ends = [one.expected for row in rows for one in row.broken]
        furthest = max(expected, *ends, *(row.tail.last for row in rows))
        self.heads[key] = ChainHead(furthest, tail.offset)

    def _expected(self, key: ChainKey, head: FramePlace) -> int:
        known = self.heads.get(key)
        if known is not None and known.offset != NO_OFFSET:
            return known.last
        is_whole = self.begins[key.outbox] == 0 and key.outbox not in self.forgotten
        return NO_OFFSET if is_whole else head.previous

    def _gap(self, key: ChainKey, expected: int, frame: FramePlace, names: Names) -> Finding:
        link = place_of(self.prefix, key.outbox.topic).link
        source = names.text(key.source)
        began, first = generation_and_offset(expected + 1)
        generation, last = generation_and_offset(frame.previous)
        if began < generation:
            first = 0  # nobody who reads the outbox alone knows where the generation begins
        return Finding(
            kind=FindingKind.GAP,
            text=f"{key.outbox} lacks what was sent of {source} from {first} to {last},"
            f" before its offset {frame.offset}",
            ids=(message_range(source, generation, first, last),),
            link=link,
            source=source,
            first=first,
            last=last,
            count=last - first + 1,
            anchor=f"{key.outbox}@{frame.offset}",
            node=link.partition("->")[0],
            evidence=(records(key.outbox, frame.offset, frame.offset),),
        )

    def _announced(self, row: FrameRow, names: Names) -> Finding:
        source, anchor = names.text(row.source), f"{row.place}@{row.head.offset}"
        text = f"the sender announces that {source} from {row.first} to {row.last} is lost"
        kind = FindingKind.GAP
        told = row_finding(kind, text, row, self.prefix, source, path=row.path, anchor=anchor)
        return replace(told, count=row.last - row.first + 1)
