"""Questions to Kafka clusters, asked beside the loop: they may wait for brokers, the loop never.

Each question has a key and is under way once. Asking again in a later turn returns the answer,
once; the answer itself says what it is about, since the present may have moved on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from mesh.worker.process.errands import Errand, Errands, Steps

UNASKED_MS = 5_000
"""How long an unclaimed question stays: longer than any caller that still wants it rests."""

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class _Answer(Generic[A]):
    said: A

    def close(self) -> None:
        """Release nothing: an answer holds no resources."""


def _asking(ask: Callable[[], A]) -> Steps[_Answer[A]]:
    yield
    return _Answer(ask())


@dataclass(slots=True)
class Questions:
    """The questions of one worker.

    Attributes:
        errands: Run them.
    """

    errands: Errands
    _open: dict[Hashable, Errand[_Answer[Any]]] = field(default_factory=dict)
    _asked: dict[Hashable, None] = field(default_factory=dict)
    _dropped_ms: int | None = None

    @property
    def are_open(self) -> bool:
        """Whether an answer is awaited."""
        return bool(self._open)

    def forget(self, *begin: Hashable) -> None:
        """Discard answers to questions whose keys begin this way: their purpose is gone."""
        for key in [one for one in self._open if isinstance(one, tuple)]:
            if key[: len(begin)] == begin:
                self._open.pop(key).call_off()

    def is_open(self, *begin: Hashable) -> bool:
        """Return whether a question whose key begins this way is under way."""
        return any(isinstance(key, tuple) and key[: len(begin)] == begin for key in self._open)

    def drop_unasked(self, now_ms: int) -> None:
        """Drop questions that nobody has repeated for a while; call it in each turn.

        Their purpose may be gone: a link, a lane, a change. The answer would keep the loop awake
        forever, and be taken for a new one when the same question is asked much later.
        """
        if self._dropped_ms is not None and now_ms - self._dropped_ms < UNASKED_MS:
            return
        self._dropped_ms = now_ms
        for key in [one for one in self._open if one not in self._asked]:
            self._open.pop(key).call_off()
        self._asked.clear()

    def answer(self, key: Hashable, ask: Callable[[], A]) -> A | None:
        """Return the answer if there is one; else ask, unless already under way, and return None.

        Raises:
            TransportError: Asking ended with that, or with any other exception; raised once.
        """
        self._asked[key] = None
        errand = self._open.get(key)
        if errand is None:
            errand = self._open[key] = self.errands.begin(_asking(ask))
        if not errand.has_ended():
            return None
        del self._open[key]
        said: A = errand.result().said
        return said
