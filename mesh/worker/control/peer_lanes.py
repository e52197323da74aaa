"""How far the lanes of other workers of this node have read, from what they commit. Spec: K5, K24.

The leader tells neighbours how far the node has read their outboxes; without its mates' lanes their
outboxes would seem full for ever, and nothing there would be deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mesh.core.holds import ChainKey
from mesh.model.control import OutboxPosition
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
from mesh.model.frames import SourcePartition
from mesh.transport.port import TopicPartition


@dataclass(slots=True)
class PeerLanes:
    """What progress records of the node's lanes say of their positions."""

    _next: dict[TopicPartition, tuple[SourcePartition, int]] = field(default_factory=dict)
    _held: dict[ChainKey, int] = field(default_factory=dict)
    _stopped: dict[TopicPartition, int] = field(default_factory=dict)

    def take(self, fact: Fact) -> None:
        """Record one fact of a lane."""
        match fact:
            case SourceAt(at, topic_id):
                self._next[at] = (SourcePartition(topic_id, at.partition), fact.next)
            case Held(at, source):
                self._held.pop((at, source), None)
                if not fact.is_over:
                    self._held[at, source] = fact.next
            case Halted(stop):
                self._stopped.pop(fact.at, None)
                if not fact.is_over:
                    self._stopped[fact.at] = stop.first
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
                pass  # what only the lanes themselves need

    def read(self, topics: frozenset[str]) -> Mapping[TopicPartition, OutboxPosition]:
        """Return how far some topics are read.

        What is held for a target is needed still, and so is what takes the place of records that
        were read in a log that was cut off since: it must not be deleted. Spec: K5, K20, R6.
        """
        found = {}
        for at, (source, offset) in self._next.items():
            if at.topic in topics:
                held = [first for (_, of), first in self._held.items() if of == source]
                read = min(offset, self._stopped.get(at, offset))
                found[at] = OutboxPosition(
                    at.topic, source.topic_id, at.partition, read, min([read, *held])
                )
        return found
