"""Waits that double: something that keeps failing is tried less and less often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T", int, float)

_DOUBLINGS_MAX = 64


@dataclass(frozen=True, slots=True)
class Patience(Generic[T]):
    """How long to wait for something, possibly in vain.

    Attributes:
        first: The first wait; the constant that holds this names its unit.
        most: No wait is longer.
    """

    first: T
    most: T

    def after(self, wait: T | None) -> T:
        """Return the wait after one in vain, twice as long; after none, the first."""
        return self.first if wait is None else min(self.most, 2 * wait)

    def nth(self, number: int) -> T:
        """Return the wait after so many waits in vain."""
        return min(self.most, self.first * (1 << min(number, _DOUBLINGS_MAX)))
