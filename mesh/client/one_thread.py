"""A client is used by one thread of one process at a time, until it is closed.

A second thread gets an error: otherwise `flush` would report one thread's messages to another, and
nothing to the first. The threads of the client library stay behind in the process that made it.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from mesh.client.in_flight import PATIENCE_MS
from mesh.client.process_guard import ProcessGuard
from mesh.errors import ClosedError, SharedError

FAREWELL_S = PATIENCE_MS / 1000 + 5
"""How long `close` waits for another thread that uses the client: longer than any call of it that
does not check whether it is closed, `flush` for one."""


class OneThread:
    """Whether a thread is at work. The same thread may enter again, as the handler of a signal."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._process = ProcessGuard("this client")
        self._is_closed = False

    def check(self) -> None:
        """Refuse to work once closed or forked: messages would only be lost.

        Raises:
            ClosedError: It was closed, or forked.
        """
        if self._is_closed:
            raise ClosedError("this client is closed; connect again")
        self._process.check()

    def __enter__(self) -> None:
        self.check()  # in a fork the lock may be held forever, by a thread that is not in it
        if not self._lock.acquire(blocking=False):
            raise SharedError("another thread is using this client: connect in each thread")
        try:
            self.check()  # somebody may have closed it meanwhile
        except ClosedError:
            self._lock.release()
            raise

    def __exit__(self, *_raised: object) -> None:
        self._lock.release()

    def end(self, close: Callable[[], None]) -> None:
        """Close once nobody is at work any more, or anyway if that takes too long.

        After a fork the resources belong to the other process.
        """
        if self._is_closed or self._process.is_forked:
            return
        self._is_closed = True
        is_alone = self._lock.acquire(timeout=FAREWELL_S)
        try:
            close()
        finally:
            if is_alone:
                self._lock.release()


class _Used(Protocol):
    _thread: OneThread


C = TypeVar("C", bound=_Used)
P = ParamSpec("P")
R = TypeVar("R")


def by_one_thread(method: Callable[Concatenate[C, P], R]) -> Callable[Concatenate[C, P], R]:
    """Make a method of a client refuse a thread that enters while another one is at work.

    Raises:
        ClosedError: The client is closed, or this process was forked after it was made.
        SharedError: Another thread is at work.
    """

    @functools.wraps(method)
    def alone(self: C, /, *given: P.args, **named: P.kwargs) -> R:
        with self._thread:
            return method(self, *given, **named)

    return alone
