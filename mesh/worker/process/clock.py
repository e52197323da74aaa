"""The one clock: monotonic, because no rule of the mesh reads the wall. Spec: DESIGN 4.3."""

from __future__ import annotations

import os
import time
from typing import Protocol


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
