"""The clocks of this machine, for whoever waits for others or shows when something was."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Return monotonic time: what is waited and measured by."""
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """Return ms since 1970: for people, never for order."""
    return time.time_ns() // 1_000_000
