"""A Kafka cluster in memory that refuses what its admin is asked."""

from __future__ import annotations

from collections.abc import Sequence

from mesh.errors import TransportError
from mesh.transport.memory import MemoryAdmin
from mesh.transport.memory_faults import MemoryFaults


class AdminFaults(MemoryFaults):
    """Notes what is asked, and answers some of it by a fault.

    Args:
        refused: By method of `Admin` what the brokers say instead of an answer.
        times: How often they say it before they answer; None for good.
    """

    def __init__(self, *, times: int | None = None, **refused: TransportError) -> None:
        assert all(hasattr(MemoryAdmin, question) for question in refused)
        self._refused, self._times = refused, times
        self._asked: list[tuple[str, Sequence[str]]] = []

    def asked(self, question: str, about: Sequence[str]) -> None:
        self._asked.append((question, list(about)))
        if (fault := self._refused.get(question)) is not None and (
            self._times is None or len(self.about(question)) <= self._times
        ):
            raise fault

    def about(self, question: str) -> list[Sequence[str]]:
        """Return what this question was asked about, each time that it was asked."""
        return [about for asked, about in self._asked if asked == question]
