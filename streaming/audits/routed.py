"""Which offsets of ingress partitions were routed within a stretch of time, as ledgers tell.

Clients' time stamps are no clock, so a past range is one of routing: a ledger record says which
offsets a lane has read, and its broker when that was written. Spec: K5, K29.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from mesh.codec.state import decode_ledger
from mesh.errors import RemoteProtocolError
from mesh.model.state import SourceRange
from streaming.audits.names import Names
from streaming.tables.digest import BLOCK_OFFSETS
from streaming.tables.rows import Batch, SmallRow, SourceKey, TopicPartition
from streaming.tables.topics import INGRESS, is_place, place_of

BLOCKS_MAX = 1_000
"""No lane reads so many blocks at once: who says so is no lane."""


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
class Routed:
    """Whole blocks of which something was routed within a stretch of time.

    Attributes:
        prefix: Start of every topic name.
        from_ms, to_ms: The stretch, ms since 1970; its end is not part of it.
        begins: Per ingress partition, by topic id, the begins of all blocks that ledgers tell of.
        spans: The lowest and highest block of the stretch, of those that have one.
    """

    prefix: str
    from_ms: int
    to_ms: int
    begins: dict[SourceKey, dict[int, Begin]] = field(default_factory=dict)
    spans: dict[SourceKey, tuple[int, int]] = field(default_factory=dict)

    def take(self, ledgers: Iterable[SmallRow]) -> None:
        """Take ledger records; one that nobody can read tells of no offset."""
        for row in ledgers:
            try:
                sources = () if row.value is None else decode_ledger(row.value).sources
            except RemoteProtocolError:
                continue
            for source in sources:
                if self._is_ingress(source.topic):
                    self._note(source, row.at_ms)

    def _is_ingress(self, topic: str) -> bool:
        return is_place(self.prefix, topic) and place_of(self.prefix, topic).role == INGRESS

    def _note(self, source: SourceRange, at_ms: int) -> None:
        first, last = source.first // BLOCK_OFFSETS, (source.next - 1) // BLOCK_OFFSETS
        if source.first < 0 or not source.first < source.next or last - first >= BLOCKS_MAX:
            return
        key = SourceKey(source.topic_id.hex(), source.partition)
        begins = self.begins.setdefault(key, {})
        for block in range(first, last + 1):
            begin = begins.setdefault(block, Begin(at_ms, source.first))
            begin.at_ms = min(begin.at_ms, at_ms)
            begin.first = min(begin.first, source.first)
        if self.from_ms <= at_ms < self.to_ms:
            low, high = self.spans.get(key, (first, last))
            self.spans[key] = (min(low, first), max(high, last))

    def ranges(self, names: Names) -> Mapping[TopicPartition, tuple[int, int]]:
        """Return the offsets to read of each ingress partition: the first, and one after the last.

        Those of a topic that was made again since then are gone.
        """
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
        begun = [
            self._began_ms(key, block)
            for key, (low, high) in self.spans.items()
            for block in range(low, high + 1)
        ]
        return min(begun, default=self.from_ms)

    def _began_ms(self, key: SourceKey, block: int) -> int:
        begin = self.begins[key].get(block)
        is_told = begin is not None and begin.first <= block * BLOCK_OFFSETS
        return begin.at_ms if begin is not None and is_told else 0

    def only(self, rows: Batch) -> Batch:
        """Return small rows without the deliveries of messages beside the stretch.

        Those of sources that no ledger tells of stay: they may be nobody's.
        """
        return replace(
            rows,
            deliveries=[
                row for row in rows.deliveries if self._has(row.source, row.first, row.last)
            ],
            unwanted=[row for row in rows.unwanted if self._has(row.source, row.first, row.last)],
        )

    def _has(self, source: SourceKey, first: int, last: int) -> bool:
        if source not in self.begins:
            return True
        low, high = self.spans.get(source, (0, -1))
        return first < (high + 1) * BLOCK_OFFSETS and last >= low * BLOCK_OFFSETS
