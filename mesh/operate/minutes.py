"""Counts by the minute, of the last day."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

MINUTES_KEPT = 24 * 60
MINUTE_MS = 60_000


class Minutes:
    """One count for each minute of the last day; eleven kilobytes once there is anything.

    Minutes are numbered from 1970 on, by brokers' clocks.
    """

    __slots__ = ("_counts", "_newest")

    def __init__(self) -> None:
        self._counts: array[int] | None = None
        self._newest = -1

    def add(self, at_ms: int, count: int) -> None:
        """Count something at a moment; what is older than a day is left out."""
        minute = at_ms // MINUTE_MS
        if self._counts is None:
            self._counts = array("Q", bytes(8 * MINUTES_KEPT))
            self._newest = minute
        if minute > self._newest:
            for passed in range(self._newest + 1, min(minute, self._newest + MINUTES_KEPT) + 1):
                self._counts[passed % MINUTES_KEPT] = 0
            self._newest = minute
        if minute > self._newest - MINUTES_KEPT:
            self._counts[minute % MINUTES_KEPT] += count

    def of(self, minute: int) -> int:
        """Return the count of a minute; 0 of one that is not kept."""
        if self._counts is None or not self._newest - MINUTES_KEPT < minute <= self._newest:
            return 0
        return self._counts[minute % MINUTES_KEPT]

    def between(self, first: int, last: int) -> Iterator[int]:
        """Yield the counts from minute `first` to minute `last`, both included."""
        return (self.of(minute) for minute in range(first, last + 1))
