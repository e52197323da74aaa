"""Which targets lanes leave out, as whoever reads a node's progress sees it. Spec: K12, K20.

Two write of each: the lane, and the catch-up beside it, in another partition. Between partitions
there is no order, so the word that the last hold has ended may be read after the next one began.
Each hold has a number of its own, which says to which of them a word belongs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mesh.model.frames import SourcePartition
from mesh.model.state import Progress


@dataclass(slots=True)
class HeldTargets:
    """Holds of one node."""

    _newest: dict[tuple[str, int, SourcePartition], Progress] = field(default_factory=dict)

    def take(self, progress: Progress) -> None:
        """Take note of a `held` record."""
        source = SourcePartition(progress.topic_id or b"", progress.source_partition)
        key = (progress.topic, progress.partition, source)
        before = self._newest.get(key)
        if before is not None:
            is_older = progress.ahead < before.ahead
            has_ended = progress.ahead == before.ahead and before.offset < 0
            if is_older or has_ended:
                return
        self._newest[key] = progress

    @property
    def still(self) -> Sequence[Progress]:
        """The newest word on each that is held still."""
        return [one for one in self._newest.values() if one.offset >= 0]
