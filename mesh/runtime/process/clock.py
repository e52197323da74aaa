"""The one clock: monotonic, because no rule of the mesh reads the wall. Spec: DESIGN 4.3."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Time as a worker sees it."""

    def now_ms(self) -> int:
        """Return ms since some fixed moment; never goes back."""

    def wait(self, seconds: float) -> None:
        """Let time pass."""


_ELAPSED = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""A machine that slept has not stood still for the others: where the system tells, sleep counts."""


class MonotonicClock:
    """The real clock."""

    def now_ms(self) -> int:
        """Return ms since some fixed moment; never goes back."""
        return time.clock_gettime_ns(_ELAPSED) // 1_000_000

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)
