"""Generations of source offsets: which of them somebody has told of, and from where on.

The offsets of a truncated log come again once an operator has accepted the loss, and whoever
delivers what was published since says so by a higher generation. Only the stop of the reader, or
its progress, makes that known: deliveries of any other generation belong to nobody. Spec: K9, R6.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mesh.model.control import Stop, StopReason
from streaming.tables.rows import SourceKey

AHEAD_MAX = 1_000
"""So many losses may have been accepted that nobody told of; numbers of strangers may be any."""


class Generation(NamedTuple):
    """A generation and its first offset, which is 0 where no reader has reported it."""

    number: int
    first: int


FIRST = Generation(0, 0)
"""The generation of every source until something is told of it."""


@dataclass(slots=True)
class Generations:
    """What was told.

    Attributes:
        known: Per source, generation -> first offset.
    """

    known: dict[SourceKey, dict[int, int]] = field(default_factory=dict)

    def stop(self, stop: Stop) -> bool:
        """Apply a reader's stop; return whether it announces a new generation."""
        source = SourceKey(stop.topic_id.hex(), stop.partition)
        is_truncated = stop.reason == StopReason.TRUNCATED  # then its offsets come again
        return is_truncated and self.tell(source, stop.generation + 1, stop.first)

    def tell(self, source: SourceKey, generation: int, first: int = 0) -> bool:
        """Note that a reader uses a generation, or will; return whether it is new."""
        known = dict(self.of(source))
        if not 0 < generation <= max(known) + AHEAD_MAX:
            return False
        more = dict(known)
        for number in range(1, generation + 1):
            more.setdefault(number, 0)
        more[generation] = max(first, more[generation])
        if more == known:
            return False
        self.known[source] = more
        return True

    def of(self, source: SourceKey | None) -> Sequence[Generation]:
        """Return what is known of a source, generations rising."""
        known = {} if source is None else self.known.get(source, {})
        return [Generation(*one) for one in sorted(known.items())] or [FIRST]

    def is_plain(self, source: SourceKey | None, generations: Collection[int], last: int) -> bool:
        """Return whether digests, which know no generations, can tell of deliveries.

        Args:
            source: Of which the messages are.
            generations: That the deliveries say.
            last: Highest offset that may be among them.
        """
        told = self.of(source)
        current = max(one.number for one in told if one.first <= last)
        is_told = all(current <= one <= told[-1].number for one in generations)
        return is_told and len(generations) <= 1
