"""Frames of an outbox that a lane did not take whole: repeats, strays, what waits for a repair.

A catch-up, of a target that was left out or for a repair, begins in the middle of chains and could
not judge as the lane did. So it does not judge at all: it takes what is not marked here. Nothing is
kept of frames that were taken whole, which nearly all are.
Spec: K11, K20.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mesh.model.facts import PartFrame, PartlyTaken
from mesh.model.frames import NONE_OFFSET
from mesh.transport.port import TopicPartition

BLOCK = 1_024
"""Offsets whose marks share one record."""


@dataclass(slots=True)
class PartlyTakenMarks:
    """Marks of one outbox partition.

    Attributes:
        topic_id: Of the outbox: offsets of a recreated one are others.
    """

    topic_id: bytes = b""
    _blocks: dict[int, dict[int, int]] = field(default_factory=dict)

    def apply(self, fact: PartlyTaken) -> None:
        """Apply what was kept of a block."""
        self._turn_to(fact.topic_id)
        self._blocks[fact.block] = {one.offset: one.after for one in fact.frames}

    def marked(self, at: TopicPartition, topic_id: bytes, offset: int, after: int) -> PartlyTaken:
        """Return what is to be kept of the block of a frame, with its mark.

        Args:
            at: The outbox partition.
            topic_id: Of the outbox.
            offset: Of the frame there.
            after: Messages with origin offsets above this were taken; -1: none.
        """
        block = offset // BLOCK
        known = self._blocks.get(block, {}) if topic_id == self.topic_id else {}
        return _kept(at, topic_id, block, {**known, offset: after})

    def after(self, topic_id: bytes, offset: int) -> int | None:
        """Return what `marked` was told of a frame, or None if it was taken whole."""
        if topic_id != self.topic_id:
            return None
        return self._blocks.get(offset // BLOCK, {}).get(offset)

    def forget(self, topic_id: bytes, start: int) -> Iterator[int]:
        """Forget the blocks below the first offset that the log still has; yield their numbers."""
        is_another = topic_id != self.topic_id
        for block in sorted(self._blocks):
            if is_another or (block + 1) * BLOCK <= start:
                del self._blocks[block]
                yield block

    def cut_off(self, at: TopicPartition, end: int) -> Iterator[PartlyTaken]:
        """Yield what is to be kept where offsets from one on are given out again."""
        for block, marks in self._blocks.items():
            kept = {offset: after for offset, after in marks.items() if offset < end}
            if len(kept) < len(marks):
                yield _kept(at, self.topic_id, block, kept)

    def _turn_to(self, topic_id: bytes) -> None:
        if topic_id != self.topic_id:
            self.topic_id = topic_id
            self._blocks.clear()


def _kept(at: TopicPartition, topic_id: bytes, block: int, marks: Mapping[int, int]) -> PartlyTaken:
    return PartlyTaken(at, topic_id, block, tuple(PartFrame(*mark) for mark in marks.items()))


NOT_TAKEN = NONE_OFFSET
"""Mark of a frame of which nothing was taken."""
