"""What is written to the log while a test runs: an operator has nothing else afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from structlog.testing import capture_logs

from mesh.model.effects import Note


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


def noted(effects: Iterable[object]) -> Said:
    """Return what pure code has the worker write: the notes among its effects."""
    notes = [one for one in effects if isinstance(one, Note)]
    return Said([{"event": one.event, "log_level": one.level, **one.fields} for one in notes])


@contextmanager
def listening() -> Iterator[Said]:
    """Hear what is written to the log from now on."""
    with capture_logs() as entries:
        yield Said(entries)
