"""How many flights are due, and how many a second where the auditor decides it."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

TICK_S = 0.2
"""How often what is due is published: 200 flights at a time at 1,000/s."""
CATCH_UP = 5.0
"""After a pause the rate is at most so many times the one asked for."""
SLOW_START = 100.0
"""Flights per second at the beginning, and at least: Spark starts meanwhile."""
ADAPT_S = 15.0
"""How often the rate changes at most: longer than a batch of the auditor on a slow machine."""
CLOSE_S = 15.0
"""How far the proof may lie behind, just after a batch, for the rate to grow."""
GROW, SHRINK = 1.2, 0.7
_ROUNDING = 1e-6


@dataclass(slots=True)
class FlightPace:
    """How many flights are due.

    Attributes:
        rate: Flights per second, from now on.
        total: Flights in all, or None without end.
    """

    rate: float
    total: int | None
    _elapsed_s: float = 0.0
    _due: float = 0.0

    def due(self, elapsed_s: float, sent: int) -> int:
        """Return how many to publish now; after a pause a few ticks share what is behind."""
        self._due += (elapsed_s - self._elapsed_s) * self.rate
        self._elapsed_s = elapsed_s
        behind = int(self._due + _ROUNDING) - sent
        burst = max(1, int(CATCH_UP * self.rate * TICK_S))
        left = behind if self.total is None else self.total - sent
        return max(0, min(behind, burst, left))


@dataclass(slots=True)
class ProofAge:
    """How long ago that was published from which on not all is proven.

    Attributes:
        published_s: When the first message was published, on the monotonic clock.
        proven_s: Up to when all is proven, on that clock, as far as was ever known.
    """

    published_s: float
    proven_s: float = -inf

    def at(self, now_s: float, wall_ms: int, until_ms: int | None) -> float:
        """Return it in seconds.

        Args:
            now_s: The monotonic clock, seconds.
            wall_ms: The wall clock at this moment, ms since 1970.
            until_ms: Up to when all is proven, on the wall clock; None if that is unknown.
        """
        if until_ms is not None:
            self.proven_s = max(self.proven_s, now_s - (wall_ms - until_ms) / 1000)
        return now_s - max(self.proven_s, self.published_s)


@dataclass(slots=True)
class ProvableRate:
    """As many flights per second as the auditor proves, which depends on the machine.

    It grows while the proof is close, shrinks while that falls further behind, and stays while it
    catches up. An auditor that has fallen behind shares the processor with the very messages that
    it has to prove, so more of them would only be proven later.

    Attributes:
        most: Flights per second that are enough.
        rate: Flights per second now.
    """

    most: float
    rate: float = SLOW_START
    _due_s: float = 0.0
    _least_s: float = inf
    _before_s: float = inf

    def adapt(self, now_s: float, lag_s: float) -> float:
        """Return the rate from now on.

        Args:
            now_s: A monotonic clock, seconds.
            lag_s: How long ago that was published from which on not all is proven.
        """
        self._least_s = min(self._least_s, lag_s)  # between two batches it only ages
        if now_s < self._due_s:
            return self.rate
        self._due_s = now_s + ADAPT_S
        if self._least_s <= CLOSE_S:
            self.rate = min(self.most, self.rate * GROW)
        elif self._least_s >= self._before_s:
            self.rate = max(SLOW_START, self.rate * SHRINK)
        self._before_s, self._least_s = self._least_s, inf
        return self.rate
