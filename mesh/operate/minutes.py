"""Counts per minute, for the last day; or per another span."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

MINUTES_KEPT = 24 * 60
MINUTE_MS = 60_000


class Minutes:
    """One count for each minute of the last day; eleven kilobytes once there is anything.

    Minutes are numbered from 1970 on, by brokers' clocks.

    Args:
        span_ms: Length of a `minute` here.
        kept: How many of them are kept.
    """

    __slots__ = ("_counts", "_kept", "_newest", "_span_ms")

    def __init__(self, span_ms: int = MINUTE_MS, kept: int = MINUTES_KEPT) -> None:
        self._counts: array[int] | None = None
        self._newest = -1
        self._span_ms, self._kept = span_ms, kept

    def add(self, at_ms: int, count: int) -> None:
        """Count something at a moment; what is older than a day is left out."""
        self.put(at_ms, self.of(at_ms // self._span_ms) + count)

    def put(self, at_ms: int, count: int) -> None:
        """Set the count of the minute of a moment; what is older than a day is left out."""
        minute = at_ms // self._span_ms
        if self._counts is None:
            self._counts = array("Q", bytes(8 * self._kept))
            self._newest = minute
        if minute > self._newest:
            for passed in range(self._newest + 1, min(minute, self._newest + self._kept) + 1):
                self._counts[passed % self._kept] = 0
            self._newest = minute
        if minute > self._newest - self._kept:
            self._counts[minute % self._kept] = count

    def of(self, minute: int) -> int:
        """Return the count of a minute; 0 of one that is not kept."""
        if self._counts is None or not self._newest - self._kept < minute <= self._newest:
            return 0
        return self._counts[minute % self._kept]

    def between(self, first: int, last: int) -> Iterator[int]:
        """Yield the counts from minute `first` to minute `last`, both included."""
        return (self.of(minute) for minute in range(first, last + 1))
