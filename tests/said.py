"""What is written to the log while a test runs: an operator has nothing else afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class Said:
    """Entries of the log, in order."""

    def __init__(self, entries: Sequence[Mapping[str, Any]]) -> None:
        self._entries = entries

    def of(self, event: str) -> list[dict[str, Any]]:
        """Return the level and the fields of each entry of an event."""
        return [
            {name: value for name, value in one.items() if name != "event"}
            for one in self._entries
            if one["event"] == event
        ]
