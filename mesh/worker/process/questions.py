"""What is asked of Kafka clusters beside the loop: a question may wait for brokers, the loop never.

Each question has a key and is under way once. Who asks again in a later turn gets the answer, once;
what the answer is about stands in the answer, since the present may have moved on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from mesh.worker.process.errands import Errand, Errands, Steps

UNASKED_MS = 5_000
"""How long a question stays that nobody asks for: longer than anybody rests who still wants it."""

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class _Answer(Generic[A]):
    said: A

    def close(self) -> None:
        """Release nothing: an answer holds nothing."""


def _asking(ask: Callable[[], A]) -> Steps[_Answer[A]]:
    yield
    return _Answer(ask())


@dataclass(slots=True)
class Questions:
    """The questions of one worker.

    Attributes:
        errands: Asks them.
    """

    errands: Errands
    _open: dict[Hashable, Errand[_Answer[Any]]] = field(default_factory=dict)
    _asked: dict[Hashable, None] = field(default_factory=dict)
    _dropped_ms: int | None = None

    @property
    def are_open(self) -> bool:
        """Whether somebody waits for an answer."""
        return bool(self._open)

    def forget(self, *begin: Hashable) -> None:
        """Take no answer to questions whose keys begin so: what they were asked for is gone."""
        for key in [one for one in self._open if isinstance(one, tuple)]:
            if key[: len(begin)] == begin:
                self._open.pop(key).call_off()

    def is_open(self, *begin: Hashable) -> bool:
        """Return whether a question is under way whose key begins so."""
        return any(isinstance(key, tuple) and key[: len(begin)] == begin for key in self._open)

    def drop_unasked(self, now_ms: int) -> None:
        """Take no answer to what nobody has asked for since the last time; call it in each turn.

        What it was asked for may have gone: a link, a lane, a change. Its answer would keep the
        loop awake for good, and be taken for a new one by who asks the same much later.
        """
        if self._dropped_ms is not None and now_ms - self._dropped_ms < UNASKED_MS:
            return
        self._dropped_ms = now_ms
        for key in [one for one in self._open if one not in self._asked]:
            self._open.pop(key).call_off()
        self._asked.clear()

    def answer(self, key: Hashable, ask: Callable[[], A]) -> A | None:
        """Return the answer if there is one; else ask, unless that is under way, and return None.

        Raises:
            TransportError: What asking ended with, as all else that it raises; once.
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
