"""How long a lane rests that could not be taken, or fails repeatedly. Spec: K14."""

from __future__ import annotations

from dataclasses import dataclass, field

from mesh.worker.lanes.takeover_waits import FAILED_LANE_RESTS_MS, UNREADABLE_LANE_RESTS_MS


@dataclass(slots=True)
class RetryBackoff:
    """The lanes that rest before they are taken."""

    _until_ms: dict[int, int] = field(default_factory=dict)
    _failures: dict[int, int] = field(default_factory=dict)
    _unreadable: dict[int, None] = field(default_factory=dict)

    def is_over(self, number: int, now_ms: int) -> bool:
        """Return whether a lane may be taken."""
        return now_ms >= self._until_ms.get(number, now_ms)

    def unreadable(self, number: int, now_ms: int) -> None:
        """Record that a lane's progress is unreadable."""
        self._unreadable[number] = None
        self._until_ms[number] = now_ms + UNREADABLE_LANE_RESTS_MS

    def failed(self, number: int, now_ms: int) -> None:
        """Record that a lane could not be taken, or could not commit."""
        failures = self._failures[number] = self._failures.get(number, 0) + 1
        if failures > 1:
            self._until_ms[number] = now_ms + FAILED_LANE_RESTS_MS.nth(failures - 2)

    def taken(self, number: int) -> bool:
        """Record that a lane was taken; return whether it was unreadable before."""
        was_unreadable = number in self._unreadable
        self._unreadable.pop(number, None)
        return was_unreadable

    def committed(self, number: int) -> None:
        """Record that a lane works."""
        self._failures.pop(number, None)
