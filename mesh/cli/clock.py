"""Time for commands: what they measure with, show and wait by."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now_ms() -> int:
    """Return monotonic time."""
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """Return this machine's clock, ms since 1970: for people, never for order."""
    return time.time_ns() // 1_000_000


def pause(seconds: float) -> None:
    """Let time pass."""
    time.sleep(seconds)


def of_today(text: str) -> str:
    """Return a moment that `in_utc` made as `05:52:10Z` if it is of today, else with its date."""
    date, _, time_of_day = text.replace("+00:00", "Z").partition("T")
    return time_of_day if in_utc(wall_ms()).startswith(f"{date}T") else f"{date} {time_of_day}"


def in_utc(ms: float, timespec: str = "seconds") -> str:
    """Return a moment for people, in UTC; one that is in no calendar as what a record says."""
    try:
        return datetime.fromtimestamp(ms / 1000, tz=UTC).isoformat(timespec=timespec)
    except (OverflowError, ValueError, OSError):
        return f"{ms:.0f} ms"
