"""Which offsets of ingress partitions were routed within a stretch of time, as ledgers tell.

Clients' time stamps are no clock, so a past range is one of routing: a ledger record says which
offsets a lane has read, and its broker when that was written. Spec: K5, K29.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from mesh.errors import RemoteProtocolError
from mesh.model.state import SourceRange
from mesh.wire.state import decode_ledger
from streaming.audits.finding_register import records
from streaming.audits.names import Names
from streaming.tables.digest import BLOCK_OFFSETS
from streaming.tables.rows import (
    HOUR_MS,
    DeliveryRow,
    MicroBatch,
    SmallRow,
    SourceKey,
    TopicPartition,
    UnwantedRow,
)
from streaming.tables.topics import INGRESS, is_place, place_of

BLOCKS_MAX = 1_000
"""No lane reads so many blocks at once: who says so is no lane."""

LEDGERS_KEPT_MS = 7 * 24 * HOUR_MS
"""No ledger record is deleted before it is so old, in milliseconds."""


@dataclass(slots=True)
class Begin:
    """Where a block began to be routed, as far as ledgers tell.

    Attributes:
        at_ms: When the first of it was, by the clock of its Kafka cluster.
        first: Lowest offset that was read with it.
    """

    at_ms: int
    first: int


@dataclass(slots=True)
class RoutedBlocks:
    """Whole blocks of which something was routed within a stretch of time.

    Attributes:
        prefix: Start of every topic name.
        from_ms, to_ms: The stretch, ms since 1970; its end is not part of it.
        begins: Per ingress partition, by topic id, the begins of all blocks that ledgers tell of.
        spans: The lowest and highest block of the stretch, of those that have one.
        topics: Topic id -> name, of what ledgers tell of.
        oldest_ms: Ledger partition -> when its oldest record that is still there was written.
    """

    prefix: str
    from_ms: int
    to_ms: int
    begins: dict[SourceKey, dict[int, Begin]] = field(default_factory=dict)
    spans: dict[SourceKey, tuple[int, int]] = field(default_factory=dict)
    topics: dict[str, str] = field(default_factory=dict)
    oldest_ms: dict[TopicPartition, int] = field(default_factory=dict)

    def take(self, ledgers: Iterable[SmallRow]) -> None:
        """Add the offsets in ledger records; unreadable ones are skipped."""
        for row in ledgers:
            self.oldest_ms[row.place] = min(row.at_ms, self.oldest_ms.get(row.place, row.at_ms))
            try:
                sources = () if row.value is None else decode_ledger(row.value).sources
            except RemoteProtocolError:
                continue
            for source in sources:
                if self._is_ingress(source.topic):
                    self._note(source, row.at_ms)

    def _is_ingress(self, topic: str) -> bool:
        return is_place(self.prefix, topic) and place_of(self.prefix, topic).kind == INGRESS

    def _note(self, source: SourceRange, at_ms: int) -> None:
        first, last = source.first // BLOCK_OFFSETS, (source.next - 1) // BLOCK_OFFSETS
        if source.first < 0 or not source.first < source.next or last - first >= BLOCKS_MAX:
            return
        key = SourceKey(source.topic_id.hex(), source.partition)
        self.topics[key.topic_id] = source.topic
        begins = self.begins.setdefault(key, {})
        for block in range(first, last + 1):
            begin = begins.setdefault(block, Begin(at_ms, source.first))
            begin.at_ms = min(begin.at_ms, at_ms)
            begin.first = min(begin.first, source.first)
        if self.from_ms <= at_ms < self.to_ms:
            low, high = self.spans.get(key, (first, last))
            self.spans[key] = (min(low, first), max(high, last))

    def leave_out(self, names: Names, ends: Mapping[TopicPartition, int]) -> Sequence[str]:
        """Leave out what is gone, with what was delivered of it, and return it for people.

        Args:
            names: As brokers tell them.
            ends: Where the logs of ingress partitions end.
        """
        texts = []
        for key, (low, high) in list(self.spans.items()):
            place, first = names.place(key), low * BLOCK_OFFSETS
            if place is None or ends.get(place, 0) <= first:
                del self.spans[key]
                former = TopicPartition(self.topics[key.topic_id], key.partition)
                where = records(former, first, (high + 1) * BLOCK_OFFSETS - 1)
                texts.append(f"{where}: the topic was deleted, or recreated, since then")
        return texts

    def untold(self, beginnings: Mapping[TopicPartition, int], now_ms: int) -> Sequence[str]:
        """Return for people which ledgers do not go back to the begin of the stretch.

        Args:
            beginnings: First offset that is still there, per ledger partition.
            now_ms: Now, ms since 1970.
        """
        texts = []
        for place, beginning in beginnings.items():
            since_ms = self.oldest_ms.get(place, now_ms - LEDGERS_KEPT_MS)
            if beginning > 0 and since_ms > self.from_ms:
                since = _day(since_ms)
                texts.append(f"what was routed before {since}: {place} does not go back further")
        return texts

    def ranges(self, names: Names) -> Mapping[TopicPartition, tuple[int, int]]:
        """Return the offsets of each ingress partition: the first, and one after the last."""
        named = {names.place(key): span for key, span in self.spans.items()}
        return {
            place: (low * BLOCK_OFFSETS, (high + 1) * BLOCK_OFFSETS)
            for place, (low, high) in named.items()
            if place is not None
        }

    def began_ms(self) -> int:
        """Return when the first of all these blocks began to be routed.

        0 where ledgers do not tell it of each: they are kept for a week.
        """
        begun = [self._began_ms(key, low, high) for key, (low, high) in self.spans.items()]
        return min(begun, default=self.from_ms)

    def _began_ms(self, key: SourceKey, low: int, high: int) -> int:
        told = [
            begin.at_ms
            for block, begin in self.begins[key].items()
            if low <= block <= high and begin.first <= block * BLOCK_OFFSETS
        ]
        return min(told) if len(told) == high - low + 1 else 0

    def only(self, rows: MicroBatch, names: Names) -> MicroBatch:
        """Return small rows without the deliveries of messages beside the stretch.

        Those of sources that neither ledgers nor brokers tell of stay: they may be nobody's.
        """

        def has(row: DeliveryRow | UnwantedRow) -> bool:
            if row.source not in self.begins and names.place(row.source) is None:
                return True
            return self._has(row.source, row.first, row.last)

        return replace(
            rows,
            deliveries=[row for row in rows.deliveries if has(row)],
            unwanted=[row for row in rows.unwanted if has(row)],
        )

    def _has(self, source: SourceKey, first: int, last: int) -> bool:
        low, high = self.spans.get(source, (0, -1))
        return first < (high + 1) * BLOCK_OFFSETS and last >= low * BLOCK_OFFSETS


def _day(at_ms: int) -> str:
    """Return a time for people; stamps of strangers lie beyond any calendar."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms after 1970"
