"""Errands that stand still while a test wants it, and writers that fail: what is tried is the rest."""

from __future__ import annotations

from dataclasses import dataclass, field

from mesh.errors import TransportError
from mesh.worker.lanes.owned import Lanes
from mesh.worker.process.errands import Errand, SteppedErrands, Steps, T


@dataclass
class Gate:
    """Errands of a world; of one kind none goes on while the gate is shut.

    Attributes:
        kind: Name of the function whose steps are meant: `_asking` for questions.
        is_shut: Whether they stand still.
        waiting: Those of the kind that were begun while it was shut.
    """

    kind: str
    is_shut: bool = False
    waiting: list[object] = field(default_factory=list)

    def begin(self, steps: Steps[T]) -> Errand[T]:
        """Have the steps done, one after the other."""
        errand = SteppedErrands().begin(steps)
        if steps.__name__ != self.kind:
            return errand
        if self.is_shut:
            self.waiting.append(errand)
        return _Gated(self, errand)

    def close(self) -> None:
        """Do nothing: nothing goes on while nobody looks."""


@dataclass
class _Gated:
    """An errand behind a gate."""

    gate: Gate
    inner: Errand[T]

    def has_ended(self) -> bool:
        return not self.gate.is_shut and self.inner.has_ended()

    def result(self) -> T:
        return self.inner.result()

    def call_off(self) -> None:
        self.inner.call_off()

    @property
    def is_off(self) -> bool:
        return self.inner.is_off


def break_writer(lanes: Lanes, number: int) -> None:
    """Have a lane's next transaction fail at once, as after a lost connection."""

    def begin() -> None:
        raise TransportError("a connection was lost")

    lanes.transactions[number].writer.begin = begin
