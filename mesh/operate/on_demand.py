"""What is asked for only if somebody looks at it: an answer of Kafka takes its time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class OnDemand(Mapping[K, V]):
    """A mapping that is made when it is first looked at.

    Args:
        make: Makes it; called once at most. What it raises, whoever looks gets.
    """

    def __init__(self, make: Callable[[], Mapping[K, V]]) -> None:
        self._make = make
        self._made: Mapping[K, V] | None = None

    @property
    def _values(self) -> Mapping[K, V]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __getitem__(self, key: K) -> V:
        """Return one value."""
        return self._values[key]

    def __iter__(self) -> Iterator[K]:
        """Yield the keys."""
        return iter(self._values)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._values)
