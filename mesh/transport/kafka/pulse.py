"""Lets idle transactional writers consume their statistics, which would pile up, ten a second."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

PULSE_S = 1.0


class NewsSource(Protocol):
    """A client with statistics or reports to consume."""

    def take_news(self) -> None:
        """Consume them, without waiting."""


class Pulse:
    """One thread that polls clients for their news while any are open.

    Args:
        sources: Returns the clients that are open now.
    """

    def __init__(self, sources: Callable[[], Sequence[NewsSource]]) -> None:
        self._sources = sources
        self._is_ending = threading.Event()
        self._lock = threading.Lock()
        self._is_on = False

    def begin(self) -> None:
        """Start, unless it is already running."""
        with self._lock:
            if not self._is_on:
                self._is_on = True
                self._is_ending = threading.Event()
                threading.Thread(target=self._run, name="pulse", daemon=True).start()

    def _run(self) -> None:
        is_ending = self._is_ending
        while not is_ending.wait(PULSE_S):
            with self._lock:
                sources = self._sources()
                if not sources:
                    self._is_on = False
                    return
            for one in sources:
                one.take_news()
            del sources  # else the last one to close would live until the next round

    def end(self) -> None:
        """End."""
        with self._lock:
            self._is_on = False
            self._is_ending.set()
