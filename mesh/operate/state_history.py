"""The states of nodes and links, from the moment when somebody starts watching."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

CHANGES_MAX = 100_000
"""Changes that are kept; in a mesh that flaps all day the oldest are dropped."""


class StateHistory:
    """Changes of states by name.

    Attributes:
        since_ms: Since when every change is on record; None before the first look.
    """

    def __init__(self) -> None:
        self.since_ms: int | None = None
        self._times: dict[str, list[int]] = {}
        self._states: dict[str, list[str]] = {}
        self._count = 0

    def note(self, states: Mapping[str, str], at_ms: int) -> None:
        """Take the states of a moment; times never go back."""
        if self.since_ms is None:
            self.since_ms = at_ms
        for name, state in states.items():
            known = self._states.setdefault(name, [])
            if not known or known[-1] != state:
                known.append(state)
                self._times.setdefault(name, []).append(at_ms)
                self._count += 1
        if self._count > CHANGES_MAX:
            self._forget(at_ms)

    def _forget(self, at_ms: int) -> None:
        """Drop the older half of the time on record."""
        self.since_ms = ((self.since_ms or at_ms) + at_ms) // 2
        for name, times in self._times.items():
            first = max(0, bisect_right(times, self.since_ms) - 1)
            self._count -= first
            self._times[name], self._states[name] = times[first:], self._states[name][first:]

    def at(self, name: str, at_ms: int) -> str | None:
        """Return the state of a moment; None if it is not on record."""
        if self.since_ms is None or at_ms < self.since_ms:
            return None
        place = bisect_right(self._times.get(name, []), at_ms)
        return self._states[name][place - 1] if place else None

    def began_ms(self, name: str) -> int | None:
        """Return since when the newest state holds; None if that was before the record."""
        times = self._times.get(name, [])
        return times[-1] if times and times[-1] != self.since_ms else None
