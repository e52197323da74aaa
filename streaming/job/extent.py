"""How much of the logs an auditor judges: all that there is, live, or a past range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from streaming.audits.names import Names
from streaming.audits.routed_blocks import RoutedBlocks
from streaming.tables.rows import MicroBatch, TopicPartition
from streaming.tables.topics import INGRESS, place_of


class LogExtent:
    """All that there is, as logs grow.

    Attributes:
        is_past: Whether it is a past range: what stands still just now is another matter then.
    """

    is_past: ClassVar[bool] = False

    def only(self, rows: MicroBatch, names: Names) -> MicroBatch:  # noqa: ARG002  # a past range asks them
        """Return what counts of small rows.

        Args:
            rows: Of a micro-batch.
            names: Of topics.
        """
        return rows

    def until(self, place: TopicPartition, end: int) -> int:  # noqa: ARG002  # the same
        """Return up to where a partition is read that ends there."""
        return end


@dataclass(slots=True)
class PastRange(LogExtent):
    """What was routed within a stretch of time.

    Attributes:
        is_past: Yes.
        routed: Which messages that are, as ledgers tell.
        ends: Ingress partition -> where the range ends there.
        is_settled: Whether it is known what the range is: before, ledgers are learned from.
    """

    is_past: ClassVar[bool] = True

    routed: RoutedBlocks
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    is_settled: bool = False

    def settle(self, ends: Mapping[TopicPartition, int]) -> None:
        """Take where the range ends; later ledger records change nothing."""
        self.ends, self.is_settled = ends, True

    def only(self, rows: MicroBatch, names: Names) -> MicroBatch:
        """Return what is of the range; until that is known, all, and learn from it."""
        if self.is_settled:
            return self.routed.only(rows, names)
        self.routed.take(rows.ledgers)
        return rows

    def until(self, place: TopicPartition, end: int) -> int:
        """Return up to where a partition is read: of ingress the range alone."""
        is_ingress = place_of(self.routed.prefix, place.topic).kind == INGRESS
        return min(end, self.ends.get(place, 0)) if is_ingress else end
