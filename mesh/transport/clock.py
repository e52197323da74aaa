"""The clocks of this machine, for waiting and for showing when something happened."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

LOOK_S = 0.2
"""How often those who wait for something look whether it is there."""


@dataclass(frozen=True, slots=True)
class Timekeeper:
    """How time passes for somebody who waits.

    Attributes:
        now_ms: Monotonic clock.
        pause: Lets time pass, in seconds.
    """

    now_ms: Callable[[], int]
    pause: Callable[[float], object]

    def wait_until(
        self, is_done: Callable[[], bool], limit_s: float, look_s: float = LOOK_S
    ) -> bool:
        """Look again and again, at least once; return whether it was done in time."""
        deadline = self.now_ms() + int(limit_s * 1000)
        while not is_done():
            if self.now_ms() >= deadline:
                return False
            self.pause(look_s)
        return True


def timekeeper() -> Timekeeper:
    """Return time as this machine has it."""
    return Timekeeper(now_ms, pause)


def now_ms() -> int:
    """Return monotonic time, for waits and measurements."""
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """Return ms since 1970: for people, never for order."""
    return time.time_ns() // 1_000_000


def pause(seconds: float) -> None:
    """Let time pass."""
    time.sleep(seconds)
