"""How long a lane rests that could not be taken, or fails again and again. Spec: K14."""

from __future__ import annotations

from dataclasses import dataclass, field

UNREADABLE_RETRY_MS = 5_000
"""How often a lane is tried again of which nobody can read where it stood: people mend that."""

REST_MS, REST_MAX_MS = 100, 1_000
"""How long a lane rests before it is taken again that has failed twice without a commit in between,
and how long at most, twice as long each time: every taking is a new epoch, two transactions and a
reading of all that it keeps, and mostly as vain as the one before."""


@dataclass(slots=True)
class Rests:
    """The lanes that rest before they are taken."""

    _until_ms: dict[int, int] = field(default_factory=dict)
    _failures: dict[int, int] = field(default_factory=dict)
    _unreadable: dict[int, None] = field(default_factory=dict)

    def is_over(self, number: int, now_ms: int) -> bool:
        """Say whether a lane may be taken."""
        return now_ms >= self._until_ms.get(number, now_ms)

    def unreadable(self, number: int, now_ms: int) -> None:
        """Take note that nobody can read where a lane stood."""
        self._unreadable[number] = None
        self._until_ms[number] = now_ms + UNREADABLE_RETRY_MS

    def failed(self, number: int, now_ms: int) -> None:
        """Take note that a lane could not be taken, or not be committed."""
        failures = self._failures[number] = self._failures.get(number, 0) + 1
        if failures > 1:
            self._until_ms[number] = now_ms + min(REST_MAX_MS, REST_MS << min(failures - 2, 10))

    def taken(self, number: int) -> bool:
        """Take note that a lane was taken; say whether it was unreadable before."""
        was_unreadable = number in self._unreadable
        self._unreadable.pop(number, None)
        return was_unreadable

    def committed(self, number: int) -> None:
        """Take note that a lane works."""
        self._failures.pop(number, None)
