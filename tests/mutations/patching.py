"""A bug that is planted while tests run, and taken out again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Patches:
    """Replaces attributes of modules and classes, and puts them back."""

    _former: list[tuple[object, str, object]] = field(default_factory=list)

    def put(self, owner: object, name: str, value: object) -> None:
        """Replace one attribute."""
        held = vars(owner)[name]
        self._former.append((owner, name, held))
        setattr(owner, name, value)

    def wrap(self, owner: object, name: str, wrapper: Callable[[Callable], Callable]) -> None:
        """Replace a function by what is made of it."""
        self.put(owner, name, wrapper(vars(owner)[name]))

    def undo(self) -> None:
        """Put everything back, last first."""
        for owner, name, value in reversed(self._former):
            setattr(owner, name, value)
        self._former.clear()


@contextmanager
def planted(plant: Callable[[Patches], None]) -> Iterator[None]:
    """Have a bug for a while."""
    patches = Patches()
    try:
        plant(patches)
        yield
    finally:
        patches.undo()


@dataclass(frozen=True, slots=True)
class Mutation:
    """One planted bug.

    Attributes:
        name: As people call it.
        wrong: What is wrong, in one line.
        plant: Puts it in.
    """

    name: str
    wrong: str
    plant: Callable[[Patches], None]

    def planted(self) -> AbstractContextManager[None]:
        """Have the bug for a while."""
        return planted(self.plant)
