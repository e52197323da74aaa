"""Whether an endpoint gets messages of one source in order, each once: of every class.

The fast tier compares offsets and only suspects; what it suspects is read again. Spec: lab.md 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from streaming.tables.rows import DeliveryRow, SourceKey, TopicPartition


class OrderKey(NamedTuple):
    """Messages of one source in one endpoint partition."""

    endpoint: TopicPartition
    source: SourceKey
    generation: int


@dataclass(frozen=True, slots=True)
class DeliverySuspicion:
    """Deliveries to read again.

    Attributes:
        key: Where, and messages of which source.
        since: Only records from this offset of the endpoint topic on are news.
        until: Read up to this offset.
        first: Lowest source offset among them.
    """

    key: OrderKey
    since: int
    until: int
    first: int = 0


@dataclass(slots=True)
class Order:
    """Highest source offset that each endpoint partition got of each source."""

    reached: dict[OrderKey, int] = field(default_factory=dict)

    def absorb(self, rows: Sequence[DeliveryRow]) -> Iterator[DeliverySuspicion]:
        """Take the deliveries of a batch; yield what must be looked at closely."""
        groups: dict[OrderKey, list[DeliveryRow]] = {}
        for row in rows:
            if row.is_moved:
                continue  # late by right, and perhaps there once more
            groups.setdefault(OrderKey(row.place, row.source, row.generation), []).append(row)
        for key, group in groups.items():
            reached = self.reached.get(key, -1)
            if min(row.first for row in group) <= reached or any(row.late for row in group):
                yield DeliverySuspicion(
                    key,
                    min(row.record_first for row in group),
                    max(row.record_last for row in group),
                    min(row.first for row in group),
                )
            self.reached[key] = max(reached, *(row.last for row in group))
