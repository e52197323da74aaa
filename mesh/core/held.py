"""Which targets lanes leave out, as whoever reads a node's progress sees it. Spec: K12, K20.

Two write of each: the lane, and the catch-up beside it, in another partition. Between partitions
there is no order, so the word that the last hold has ended may be read after the next one began.
Each hold has a number of its own, which says to which of them a word belongs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mesh.model.facts import FactKey, Held


@dataclass(slots=True)
class HeldTargets:
    """Holds of one node."""

    _newest: dict[FactKey, Held] = field(default_factory=dict)

    def take(self, fact: Held) -> None:
        """Take note of what a lane or a catch-up says."""
        before = self._newest.get(fact.key)
        if before is not None:
            is_older = fact.number < before.number
            has_ended = fact.number == before.number and before.is_over
            if is_older or has_ended:
                return
        self._newest[fact.key] = fact

    @property
    def still(self) -> Sequence[Held]:
        """The newest word on each that is held still."""
        return [one for one in self._newest.values() if not one.is_over]
