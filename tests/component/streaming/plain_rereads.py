"""Reading again, by Python alone: what `streaming.tables.exact` has Spark answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from re import Pattern
from typing import Any

from mesh.errors import DecodeError, RemoteProtocolError, UnknownVersionError
from mesh.model.frames import FrameFlags, MessageClass
from mesh.model.queues import MOVED_EXT
from mesh.model.topics import TopicNames
from mesh.wire.frames import decode_value
from mesh.wire.keys import parse_subscription_key
from streaming.audits.cases import Case, CaseOutcome
from streaming.audits.lane_knowledge import EndKey
from streaming.audits.matching import is_filter
from streaming.audits.order import DeliverySuspicion
from streaming.audits.origins import FrameSuspicion
from streaming.audits.unwanted_deliveries import AbridgedDeliveries
from streaming.connectors.source import Ranges
from streaming.job.reread_answers import Repeats
from streaming.job.rereads import Rereader
from streaming.tables.digest import BLOCK_BITS
from streaming.tables.exact import OFFSETS_MAX
from streaming.tables.rows import SUBJECTS_MAX, SourceKey, TopicPartition, UnwantedRow
from tests.component.streaming.plain_rows import Seen, is_addressed, is_moved, java, source_of

Look = Callable[[TopicPartition, int, int], Iterable[Seen]]
"""Partition, first offset, end -> the records there."""


@dataclass(frozen=True, slots=True)
class PlainRereader(Rereader):
    """Reads again what is in memory."""

    look: Look = lambda *_: ()

    def records(self, kafka: str, ranges: Ranges) -> Any:
        return [one for place, range_ in ranges.items() for one in self.look(place, *range_)]

    def asked(self, kafka: str, ranges: Ranges) -> Iterator[str]:
        for one in self.records(kafka, ranges):
            with suppress(RemoteProtocolError):
                _, filter_ = parse_subscription_key(one.record.key or b"")
                if is_filter(filter_):
                    yield filter_

    def earliest_ms(self, ranges: Ranges) -> int:
        found = [one.record.at_ms for one in self.records("", ranges)]
        return max(0, min(found, default=0))

    def cases(self, cases: Sequence[Case]) -> Sequence[CaseOutcome]:
        return [self._outcome(case) for case in cases]

    def _outcome(self, case: Case) -> CaseOutcome:
        names, bytes_max = TopicNames(self.topology.prefix), self.topology.max_message_bytes
        logs = {
            TopicPartition(names.endpoint(one.node, one.name), partition): bounds
            for one, records in case.records.items()
            for partition, bounds in records.items()
        }
        begins = self.kafka_clusters.beginnings(dict.fromkeys([case.place, *logs]))
        first = max(case.first, begins.get(case.place, 0))
        patterns = [(want, java(want.pattern)) for want in case.wants]
        expected: dict[int, tuple[bool, int]] = {}
        for one in self.look(case.place, first, case.last + 1):
            subject = one.subject(bytes_max)
            musts = [
                want.is_must and not one.is_odd
                for want, pattern in patterns
                if want.first <= one.offset <= want.last
                and subject is not None
                and pattern.search(subject)
            ]
            if musts:
                expected[one.offset] = any(musts), one.content
        copies: dict[int, list[tuple[int, int, int]]] = {}
        for place, (low, high) in logs.items():
            for one in self.look(place, low, high + 1):
                told = one.delivery
                moves = one.moves if case.may_move else 0
                if told is None or source_of(told) != case.source or (case.is_own and one.moves):
                    continue
                if first <= told.offset <= case.delivered_last:
                    copies.setdefault(told.offset, []).append((told.generation, moves, one.content))
        counts: Counter[str] = Counter()
        offsets: dict[str, set[int]] = {}
        for offset in sorted({*expected, *copies}):
            is_must, content = expected.get(offset, (None, None))
            own, contents, strangers = _counted(
                copies.get(offset, ()), offset, dict(case.generations)
            )
            counts["expected"] += is_must is not None and (is_must or own > 0)
            counts["delivered"] += own + strangers
            counts["duplicate"] += max(0, own - 1)
            faults = {
                "missing": bool(is_must) and own == 0,
                "duplicates": own > 1,
                "unexpected": (is_must is None and own > 0) or strangers > 0,
                "corrupt": is_must is not None and own > 0 and contents != {content},
            }
            for name, is_fault in faults.items():
                counts[name] += is_fault
                if is_fault:
                    offsets.setdefault(name, set()).add(offset)

        def told_of(name: str) -> tuple[int, ...]:
            return tuple(sorted(offsets.get(name, ()))[:OFFSETS_MAX])

        return CaseOutcome(
            expected=counts["expected"],
            delivered=counts["delivered"],
            missing=counts["missing"],
            missing_offsets=told_of("missing"),
            duplicate=counts["duplicate"],
            duplicate_offsets=told_of("duplicates"),
            unexpected=counts["unexpected"],
            unexpected_offsets=told_of("unexpected"),
            corrupt=counts["corrupt"],
            corrupt_offsets=told_of("corrupt"),
            begin=begins.get(case.place, 0),
            is_cut=case.is_cut or any(begins.get(at, 0) > low for at, (low, _) in logs.items()),
        )

    def deliveries(
        self, doubts: Sequence[DeliverySuspicion], begins: Sequence[int]
    ) -> Sequence[Sequence[Repeats]]:
        found = []
        for doubt, begin in zip(doubts, begins, strict=True):
            key = doubt.key
            rows = [
                (one.offset, 0, one.delivery.offset)
                for one in self.look(key.endpoint, min(begin, doubt.since), doubt.until + 1)
                if one.delivery is not None
                and one.moves == 0
                and (source_of(one.delivery), one.delivery.generation) == key[1:]
            ]
            found.append(_repeats(rows, doubt.since))
        return found

    def strange(self, doubts: Sequence[AbridgedDeliveries]) -> Sequence[UnwantedRow | None]:
        return [self._strange(one.row, java(one.pattern)) for one in doubts]

    def _strange(self, row: UnwantedRow, wanted: Pattern[str]) -> UnwantedRow | None:
        found = [
            (one.offset, one.delivery.offset, subject)
            for one in self.look(row.place, row.record_first, row.record_last + 1)
            if one.delivery is not None
            and one.delivery.message_class is MessageClass.DIRECT
            and source_of(one.delivery) == row.source
            and not wanted.search(subject := one.subject(self.topology.max_message_bytes) or "")
        ]
        if not found:
            return None
        records, offsets, subjects = zip(*found, strict=True)
        return replace(
            row,
            count=len(found),
            first=min(offsets),
            last=max(offsets),
            record_first=min(records),
            record_last=max(records),
            subjects=tuple(sorted({*subjects}))[:SUBJECTS_MAX],
        )

    def frames(
        self, doubts: Sequence[FrameSuspicion], read: Mapping[TopicPartition, int]
    ) -> Sequence[Sequence[Repeats]]:
        found = []
        for doubt in doubts:
            rows: list[tuple[int, int, int]] = []
            ways: dict[int, set[TopicPartition]] = {}
            for outbox in doubt.outboxes:
                end = read.get(outbox, 0) if doubt.receiver else doubt.until + 1
                for frame, number, offset in self._messages(outbox, end, doubt):
                    rows.append((frame, number, offset))
                    ways.setdefault(offset, set()).add(outbox)
            if not doubt.receiver:
                found.append(_repeats(rows, doubt.since))
                continue
            twice = [n for n, of in ways.items() if doubt.since <= n <= doubt.until and len(of) > 1]
            found.append(_by_block([(offset, True, False) for offset in twice]))
        return found

    def _messages(
        self, outbox: TopicPartition, end: int, doubt: FrameSuspicion
    ) -> Iterator[tuple[int, int, int]]:
        for one in self.look(outbox, 0, end):
            header = one.header
            if header is None or FrameFlags.REPAIR in header.flags or is_moved(header):
                continue
            origin = header.origin
            is_of_source = (source_of(origin), origin.generation) == (
                doubt.source,
                doubt.generation,
            )
            if str(header.kind) != "data" or not is_of_source:
                continue
            with suppress(DecodeError, UnknownVersionError):
                for number, message in enumerate(decode_value(one.record.value or b"", header)):
                    if not (is_addressed(header) and MOVED_EXT in message.ext):
                        yield one.offset, number, message.offset

    def ends(self, keys: Sequence[EndKey]) -> Sequence[Mapping[SourceKey, int]]:
        found = []
        for key in keys:
            last: dict[SourceKey, int] = {}
            for one in self.look(key.outbox, 0, key.position):
                if one.header is not None:
                    source = source_of(one.header.origin)
                    last[source] = max(last.get(source, -1), one.header.origin.last)
            found.append(last)
        return found


def _counted(
    copies: Sequence[tuple[int, int, int]], offset: int, generations: Mapping[int, int]
) -> tuple[int, set[int], int]:
    """Return the copies of a message that count, what they hold, and copies nobody told of."""
    again = [one for one, *_ in copies if one in generations and offset >= generations[one]]
    newest = max(again, default=0)
    current = [one for one in copies if one[0] not in generations or one[0] >= newest]
    told = [(moves, content) for generation, moves, content in current if generation in generations]
    most = max((moves for moves, _ in told), default=0)
    own = [content for moves, content in told if moves == most]
    return len(own), set(own), len(current) - len(told)


def _repeats(rows: Sequence[tuple[int, int, int]], since: int) -> Sequence[Repeats]:
    seen: set[int] = set()
    most = -1
    marked = []
    for record, _, offset in sorted(rows):
        is_duplicate, is_late = offset in seen, offset < most
        seen.add(offset)
        most = max(most, offset)
        if record >= since:
            marked.append((offset, is_duplicate, is_late and not is_duplicate))
    return _by_block(marked)


def _by_block(marked: Sequence[tuple[int, bool, bool]]) -> Sequence[Repeats]:
    def block_of(one: tuple[int, bool, bool]) -> int:
        return one[0] >> BLOCK_BITS

    found = []
    faulty = sorted(one for one in marked if one[1] or one[2])
    for block, group in groupby(faulty, block_of):
        of_block = list(group)
        twice = [offset for offset, is_twice, _ in of_block if is_twice]
        late = [offset for offset, _, is_late in of_block if is_late]
        told = (tuple(sorted({*of})[:OFFSETS_MAX]) for of in (twice, late))
        twice_told, late_told = told
        found.append(Repeats(block, len(twice), twice_told, len(late), late_told))
    return found
