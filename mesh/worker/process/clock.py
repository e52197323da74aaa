"""The one clock: monotonic, because no rule of the mesh reads the wall. Spec: DESIGN 4.3."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Protocol

AWAKE_MS = 1_000
"""The most that counts of the time between two turns. In a longer gap the worker stood still, and
has simply not yet read whoever seems silent. Spec: tree_layer 12 (c), K13, K19."""


class Clock(Protocol):
    """Time as a worker sees it."""

    def now_ms(self) -> int:
        """Return ms since some fixed moment; never goes back."""

    def wait(self, seconds: float) -> None:
        """Let time pass."""


_ELAPSED = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""A suspended machine has not stopped time for the others: where the system knows, sleep counts."""


class BusyTime:
    """How long a thread was busy: it ran, or was ready to run but had no processor."""

    def __init__(self) -> None:
        """Begin for the calling thread; only that thread may ask."""
        try:
            self._file: int | None = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        except OSError:
            self._file = None  # the system does not provide it

    def ms(self) -> int:
        """Return the busy time in ms, since some fixed moment."""
        if self._file is None:
            return time.thread_time_ns() // 1_000_000
        ran, queued, *_ = os.pread(self._file, 100, 0).split()
        return (int(ran) + int(queued)) // 1_000_000


class MonotonicClock:
    """The real clock."""

    def now_ms(self) -> int:
        """Return ms since some fixed moment; never goes back."""
        return time.clock_gettime_ns(_ELAPSED) // 1_000_000

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)


@dataclass(slots=True)
class AwakeTime:
    """The time in which a worker takes its turns: only by that may it judge who is silent.

    Attributes:
        stood_still_ms: Time of the worker's life that did not count.
    """

    stood_still_ms: int = 0
    _turned_ms: int | None = None

    def at(self, now_ms: int, counted_ms: int = AWAKE_MS) -> int:
        """Return the present moment in this time.

        Args:
            now_ms: By the clock; an earlier moment is fine too.
            counted_ms: How much of the time since the last turn counts at most.
        """
        turned_ms = now_ms if self._turned_ms is None else self._turned_ms
        if now_ms - turned_ms > counted_ms:
            self.stood_still_ms += now_ms - turned_ms - counted_ms
        # Within a turn some callers pass the moment it began, which may be long ago.
        if self._turned_ms is None or now_ms > turned_ms:
            self._turned_ms = now_ms
        return now_ms - self.stood_still_ms
