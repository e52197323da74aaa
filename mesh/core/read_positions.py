"""How far the lanes of a node have read, folded from what they record. Spec: K5, K12, K20, R6."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from mesh.core.holds import Holds
from mesh.model.control import OutboxPosition, Stop
from mesh.model.facts import (
    Accepted,
    EpochRaised,
    ErasBegun,
    Fact,
    Gap,
    Halted,
    Held,
    InterestInForce,
    PartlyTaken,
    Sent,
    SourceAt,
    Truncations,
)
from mesh.model.frames import SourcePartition, TopicPartition


def outbox_position(
    at: TopicPartition, source: SourcePartition, read: int, held: Iterable[int]
) -> OutboxPosition:
    """Return the position reported for a source: how far it is read, and from where it is needed.

    Records held for a target are still needed. So is whatever replaces records that were read in a
    log that has since been cut off: it must not be deleted. Spec: K5, K20, R6.

    Args:
        at: The source.
        source: Its identity.
        read: How far it was certainly read, not beyond where its log was cut off.
        held: Offsets from which some target lacks what was read.
    """
    needed = min([read, *held])
    return OutboxPosition(at.topic, source.topic_id, at.partition, read=read, needed=needed)


@dataclass(slots=True)
class ReadPositions:
    """Positions of the lanes of one node.

    Attributes:
        sources: Newest position of every source.
        stopped: Sources that are read no further, and where; what is there now was not read.
        holds: Targets that are left out, by lane.
    """

    sources: dict[TopicPartition, SourceAt] = field(default_factory=dict)
    stopped: dict[TopicPartition, Stop] = field(default_factory=dict)
    holds: dict[int, Holds] = field(default_factory=dict)

    def apply(self, lane: int, fact: Fact) -> None:
        """Apply a fact that a lane has recorded."""
        match fact:
            case SourceAt(at):
                self.sources[at] = fact
            case Halted(stop):
                self.stopped.pop(fact.at, None)
                if not fact.is_over:
                    self.stopped[fact.at] = stop
            case Held():
                self.of_lane(lane).apply(fact)
            case (
                EpochRaised()
                | InterestInForce()
                | ErasBegun()
                | Truncations()
                | PartlyTaken()
                | Sent()
                | Accepted()
                | Gap()
            ):
                pass  # they move no position

    def of_lane(self, lane: int) -> Holds:
        """Return the holds of a lane."""
        return self.holds.setdefault(lane, Holds())

    def reached(self, at: TopicPartition) -> int:
        """Return the next offset of a source: not beyond where its log was cut off."""
        offset, stop = self.sources[at].next, self.stopped.get(at)
        return offset if stop is None else min(offset, stop.first)

    def of_topics(self, topics: Collection[str]) -> Mapping[TopicPartition, OutboxPosition]:
        """Return the positions reported for the sources in some topics."""
        found = {}
        for at, position in self.sources.items():
            if at.topic in topics:
                source = SourcePartition(position.topic_id, at.partition)
                found[at] = outbox_position(at, source, self.reached(at), self._held(source))
        return found

    def _held(self, source: SourcePartition) -> Iterable[int]:
        """Yield the offsets of a source from which targets lack what was read of it."""
        for holds in self.holds.values():
            for target in holds:
                for (_, of), first in holds.next(target).items():
                    if of == source:
                        yield first
