"""When messages were routed, by the clock of the broker that took the ledger records of it.

Clients' time stamps are no clock, and endpoints keep them: a ledger record says which offsets of
an ingress partition a lane has read, and its broker when that was written. Spec: K5, K29.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

GRAIN_MS = 1_000
"""Of times that are no further apart the later one is left out: a time is so much too early at
most, and never too late."""

TIMES_MAX = 256
"""Times of one partition; of more, every second one is left out, so they are coarser."""


class RoutedAt(NamedTuple):
    """From an offset on, messages were routed at a time or later; ms since 1970."""

    offset: int
    at_ms: int


@dataclass(slots=True)
class RoutedTimes:
    """Of one ingress partition, as far as blocks of it are open.

    Attributes:
        known: In the order of offsets.
    """

    known: list[RoutedAt] = field(default_factory=list)

    def note(self, first: int, at_ms: int) -> None:
        """Note that offsets from `first` on were routed at `at_ms`; earlier notes stand."""
        if self.known and (
            first <= self.known[-1].offset or at_ms - self.known[-1].at_ms < GRAIN_MS
        ):
            return
        self.known.append(RoutedAt(first, at_ms))
        if len(self.known) > TIMES_MAX:
            self.known = [*self.known[:-1:2], self.known[-1]]

    def at(self, offset: int) -> int | None:
        """Return when an offset was routed, in ms since 1970; None: no ledger record shows it."""
        found = bisect_right(self.known, offset, key=lambda one: one.offset)
        return self.known[found - 1].at_ms if found else None

    def forget(self, begin: int) -> None:
        """Forget what concerns only offsets below one."""
        found = bisect_right(self.known, begin, key=lambda one: one.offset)
        del self.known[: max(0, found - 1)]
