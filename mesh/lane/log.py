"""What a lane has to say to people: notes that whoever runs it writes to its log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mesh.model.effects import Note


@dataclass(slots=True)
class Log:
    """The notes that nobody has written yet, oldest first."""

    _notes: list[Note] = field(default_factory=list)

    def warning(self, event: str, **fields: object) -> None:
        """Note what someone may want to look into."""
        self._notes.append(Note(event, fields))

    def error(self, event: str, **fields: object) -> None:
        """Note what waits for a person, or is lost."""
        self._notes.append(Note(event, fields, "error"))

    def take(self) -> Sequence[Note]:
        """Return all notes, and forget them."""
        notes, self._notes = self._notes, []
        return notes
