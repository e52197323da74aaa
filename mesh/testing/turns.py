"""Threads of one test take turns at a mesh in memory: its nodes, and the Kafka that is not there.

Real brokers put what many clients write in order. In memory nothing does so by itself: of two calls
at once each would write the same offset.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, TypeVar, cast

P = TypeVar("P")

_PORTS = ("reader", "writer", "consumer", "admin")
"""What a Kafka cluster makes, for one thread each."""


class Turns:
    """A lock that a thread which waits gets before the one that has just had it.

    Without that, who lets time pass in a loop would let in nobody else. Whoever has it may take it
    once more.
    """

    def __init__(self) -> None:
        self._next = threading.Lock()  # held by the thread whose turn comes next
        self._turn = threading.Lock()
        self._owner: int | None = None
        self._depth = 0

    def __enter__(self) -> None:
        if self._owner != threading.get_ident():
            with self._next:
                self._turn.acquire()
            self._owner = threading.get_ident()
        self._depth += 1

    def __exit__(
        self,
        _raised: type[BaseException] | None,
        _error: BaseException | None,
        _where: TracebackType | None,
    ) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = None
            self._turn.release()


class _InTurn:
    """A port, each call of which takes a turn."""

    def __init__(self, port: object, turns: Turns) -> None:
        self._port = port
        self._turns = turns

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if not callable(found):
            return found

        def call(*given: Any, **named: Any) -> Any:
            with self._turns:
                answer = found(*given, **named)
            return in_turn(answer, self._turns) if name in _PORTS else answer

        return call


def in_turn(port: P, turns: Turns) -> P:
    """Return a port as threads may use it beside each other; so are those that it makes."""
    return cast(P, _InTurn(port, turns))
