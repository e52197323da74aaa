"""What a lane has to say to people: entries that whoever runs it writes to its log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One thing that an operator should be able to read afterwards.

    Attributes:
        level: Its level, by the name that logging has for it.
        event: What happened, one dotted word.
        fields: Where, and how much of it.
    """

    level: Literal["warning", "error"]
    event: str
    fields: dict[str, object]


@dataclass(slots=True)
class Log:
    """The entries that nobody has written yet, oldest first."""

    _entries: list[LogEntry] = field(default_factory=list)

    def warning(self, event: str, **fields: object) -> None:
        """Note what someone may want to look into."""
        self._entries.append(LogEntry("warning", event, fields))

    def error(self, event: str, **fields: object) -> None:
        """Note what waits for a person, or is lost."""
        self._entries.append(LogEntry("error", event, fields))

    def take(self) -> Sequence[LogEntry]:
        """Return all entries, and forget them."""
        entries, self._entries = self._entries, []
        return entries
