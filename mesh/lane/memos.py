"""What a lane remembers while the routing stays the same; it could ask for all of it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mesh.core.routes import Arrival, Route
from mesh.model.frames import MessageClass
from mesh.model.record_headers import SUBJECT_HEADER

Known = dict[tuple[str, bytes | None], tuple[str, Route]]
"""Header as clients wrote it -> subject and route, since the routing last changed."""

MEMO_MAX = 32_768
TABLES_MAX = 256
"""Subject tables remembered per arrival: each may have thousands of bytes and routes."""


@dataclass(frozen=True, slots=True)
class RoutedTable:
    """What becomes of frames with one subject table that came one way.

    Attributes:
        subjects: Its subjects.
        routes: Route of each subject of the table.
        only: The one route of all of them, or None if they part.
        delivers: Whether some of them go to an endpoint of this node.
    """

    subjects: Sequence[str]
    routes: Sequence[Route]
    only: Route | None
    delivers: bool


Tables = dict[bytes, RoutedTable]
"""Subject table as it stands in frames -> the same with its routes."""


@dataclass(slots=True)
class Memos:
    """Subjects published here, tables of frames, and headers for those it delivers to."""

    _known: dict[MessageClass, Known] = field(default_factory=dict)
    _tables: dict[tuple[Arrival, MessageClass], Tables] = field(default_factory=dict)
    _addresses: dict[str, tuple[str, bytes]] = field(default_factory=dict)

    def forget_routes(self) -> None:
        """Forget all that depends on the routing."""
        self._known.clear()
        self._tables.clear()

    def forget_subjects(self) -> None:
        """Forget which subjects published here are known."""
        self._known.clear()

    def subjects(self, message_class: MessageClass) -> Known:
        """Return the subjects published here that are known to be valid, with their routes."""
        return self._known.setdefault(message_class, {})

    def remember_subject(
        self, message_class: MessageClass, raw: bytes, found: tuple[str, Route]
    ) -> tuple[str, Route]:
        """Remember a valid subject and its route."""
        known = self._known[message_class]
        if len(known) >= MEMO_MAX:
            known.clear()
        known[SUBJECT_HEADER, raw] = found
        return found

    def tables(self, arrival: Arrival, message_class: MessageClass) -> Tables:
        """Return the tables of frames that came one way, to be added to by `remember_table`."""
        return self._tables.setdefault((arrival, message_class), {})

    @staticmethod
    def remember_table(tables: Tables, raw: bytes, table: RoutedTable) -> RoutedTable:
        """Remember what becomes of frames with one subject table."""
        if len(tables) >= TABLES_MAX:
            tables.clear()
        tables[raw] = table
        return table

    def address(self, subject: str) -> tuple[str, bytes]:
        """Return the header that repeats a subject to those it is delivered to. Spec: K8."""
        header = self._addresses.get(subject)
        if header is None:
            if len(self._addresses) >= MEMO_MAX:
                self._addresses.clear()
            header = self._addresses[subject] = (SUBJECT_HEADER, subject.encode())
        return header
