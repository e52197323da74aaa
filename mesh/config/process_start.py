"""Which process is meant by an id that was written down: ids come again, starts do not."""

from __future__ import annotations

from contextlib import suppress

import psutil

SAME_START_S = 5.0
"""The system tells a start by the clock, which may have been corrected a little since then."""


def start_of(pid: int) -> float | None:
    """Return when the process of an id began, in seconds since 1970; None if none has the id."""
    with suppress(psutil.Error, OverflowError, ValueError):
        return float(psutil.Process(pid).create_time()) if pid > 0 else None
    return None


def runs_still(pid: int, began_s: float) -> bool:
    """Return whether the process that had an id when it was written down has it now.

    Args:
        pid: The id.
        began_s: When that process began; 0 if that was not written down.
    """
    now_s = start_of(pid)
    return now_s is not None and (not began_s or abs(now_s - began_s) <= SAME_START_S)
