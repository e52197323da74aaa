"""The clocks of this machine, for waiting and for showing when something happened."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Return monotonic time, for waits and measurements."""
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """Return ms since 1970: for people, never for order."""
    return time.time_ns() // 1_000_000


def pause(seconds: float) -> None:
    """Let time pass."""
    time.sleep(seconds)
