"""Questions to brokers: asked in parallel, and only if somebody looks at the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

AT_ONCE = 16
"""Questions under way at the same time."""

_Asked = TypeVar("_Asked")
_Told = TypeVar("_Told")
K = TypeVar("K")
V = TypeVar("V")


def side_by_side(ask: Callable[[_Asked], _Told], each: Iterable[_Asked]) -> list[_Told]:
    """Return the answers in the order of the questions; it takes as long as the slowest.

    Args:
        ask: Waits for brokers, and changes nothing that others use.
        each: What to ask about.
    """
    asked = list(each)
    if len(asked) < 2:
        return [ask(one) for one in asked]
    with ThreadPoolExecutor(min(AT_ONCE, len(asked)), "ask") as pool:
        return list(pool.map(ask, asked))


class OnDemand(Mapping[K, V]):
    """A mapping that is computed when it is first looked at.

    Args:
        make: Computes it; called once at most. Its exceptions go to the caller that looks.
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
