"""Direct copies that may not be in Kafka yet: what dies with a worker is counted. Spec: K18."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mesh.transport.port import TopicPartition

UNWRITTEN = "unwritten"
"""Why direct copies may be lost that a former owner had read: it died before they were written. A
bound: offsets of the source, of which some were written, and some had no copies."""


@dataclass(slots=True)
class Unwritten:
    """The first offset of each source of which a copy may not be in Kafka yet.

    Attributes:
        ready: Of copies that may be written.
        sent: Of copies that were handed to the client library since all before were acknowledged.
    """

    ready: dict[TopicPartition, int] = field(default_factory=dict)
    sent: dict[TopicPartition, int] = field(default_factory=dict)

    def add(self, firsts: Mapping[TopicPartition, int]) -> None:
        """Take it that copies may be written from now on."""
        _keep_lowest(self.ready, firsts)

    def hand_over(self) -> None:
        """Take it that all copies that might be written were handed to the client library."""
        _keep_lowest(self.sent, self.ready)
        self.ready.clear()

    def below(
        self, at: TopicPartition, position: int, waiting: Mapping[TopicPartition, int]
    ) -> int:
        """Return of how many offsets before a position copies may not be in Kafka.

        Args:
            at: The source.
            position: How far it is read.
            waiting: First offsets of copies that wait for a commit.
        """
        firsts = [kept[at] for kept in (waiting, self.ready, self.sent) if at in kept]
        return max(0, position - min(firsts, default=position))


def _keep_lowest(kept: dict[TopicPartition, int], firsts: Mapping[TopicPartition, int]) -> None:
    """Add first offsets to those that are known."""
    for at, first in firsts.items():
        kept[at] = min(first, kept.get(at, first))
