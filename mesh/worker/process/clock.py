"""The one clock: monotonic, because no rule of the mesh reads the wall. Spec: DESIGN 4.3."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Protocol

AWAKE_MS = 1_000
"""Of a longer time between two turns the rest does not count: a worker stood still then, and who
seems to have been silent it has not read yet. Spec: tree_layer 12 (c), K13, K19."""


class Clock(Protocol):
    """Time as a worker sees it."""

    def now_ms(self) -> int:
        """Return ms since some fixed moment; never goes back."""

    def wait(self, seconds: float) -> None:
        """Let time pass."""


_ELAPSED = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""A machine that slept has not stood still for the others: where the system knows, sleep counts."""


class BusyTime:
    """How long a thread was not waiting: it ran, or was ready to and had no processor."""

    def __init__(self) -> None:
        """Begin for the calling thread, which alone asks."""
        try:
            self._file: int | None = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        except OSError:
            self._file = None  # a system that does not tell

    def ms(self) -> int:
        """Return that in ms, since some fixed moment."""
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
    """The time in which a worker takes its turns: by that alone it may judge who is silent.

    Attributes:
        stood_still_ms: How much longer the worker has lived.
    """

    stood_still_ms: int = 0
    _turned_ms: int | None = None

    def at(self, now_ms: int, counted_ms: int = AWAKE_MS) -> int:
        """Return the present moment by it.

        Args:
            now_ms: By the clock; a moment that is past by now counts too.
            counted_ms: How much counts at most of the time since the last turn.
        """
        turned_ms = now_ms if self._turned_ms is None else self._turned_ms
        if now_ms - turned_ms > counted_ms:
            self.stood_still_ms += now_ms - turned_ms - counted_ms
        # Within a turn some ask by the moment in which it began, which may be long ago.
        if self._turned_ms is None or now_ms > turned_ms:
            self._turned_ms = now_ms
        return now_ms - self.stood_still_ms
