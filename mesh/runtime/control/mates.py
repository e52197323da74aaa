"""How far the lanes of other workers of this node have read, from what they commit. Spec: K5, K24.

The leader tells neighbours how far the node has read their outboxes; without its mates' lanes their
outboxes would seem full for ever, and nothing there would be deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mesh.model.control import OutboxPosition
from mesh.model.frames import SourcePartition
from mesh.model.state import Progress, ProgressKind
from mesh.runtime.lane.positions import ENDED, HoldKey
from mesh.transport.port import TopicPartition


@dataclass(slots=True)
class MatesPositions:
    """What progress records of the node's lanes say of their positions."""

    _next: dict[TopicPartition, tuple[SourcePartition, int]] = field(default_factory=dict)
    _held: dict[HoldKey, int] = field(default_factory=dict)
    _stopped: dict[TopicPartition, int] = field(default_factory=dict)

    def take(self, progress: Progress) -> None:
        """Take note of one record of a lane."""
        about = TopicPartition(progress.topic, progress.partition)
        if progress.kind is ProgressKind.SOURCE:
            source = SourcePartition(progress.topic_id or b"", progress.partition)
            self._next[about] = (source, progress.offset)
        elif progress.kind is ProgressKind.HELD:
            key = (about, SourcePartition(progress.topic_id or b"", progress.source_partition))
            self._held.pop(key, None)
            if progress.offset != ENDED:
                self._held[key] = progress.offset
        elif progress.kind is ProgressKind.STOPPED:
            self._stopped.pop(about, None)
            if progress.reason:
                self._stopped[about] = progress.offset

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
