"""How long tests wait for what other processes do: one number, and one way to wait.

Whoever waits for a condition is done when it holds, so patience costs nothing where all is well. On
a machine that does much else each process has a small part of a core. A number of its own has only
a test whose matter is how soon something comes.
"""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 300.0

WAITING = ("--wait", f"{PATIENCE_S / 2:g}")
"""Options of a command that waits, and is waited for."""


def wait_until(
    what: str,
    holds: Callable[[], object],
    *,
    within_s: float = PATIENCE_S,
    pace_s: float = 0.1,
    so_far: Callable[[], object] = str,
) -> None:
    """Wait until a condition holds; fail if it does not in time, and say how far it has come."""
    end_s = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end_s, f"{what}: not within {within_s:g} s {so_far()}"
        time.sleep(pace_s)
