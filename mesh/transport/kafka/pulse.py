"""Idle writers with transactions take in their statistics: those would pile up, ten a second."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

PULSE_S = 1.0


class Hearing(Protocol):
    """Who has news to take in."""

    def take_news(self) -> None:
        """Take it in, without waiting."""


class Pulse:
    """One thread that has some take in their news, as long as there are any.

    Args:
        hearing: Returns who there is now.
    """

    def __init__(self, hearing: Callable[[], Sequence[Hearing]]) -> None:
        self._hearing = hearing
        self._is_ending = threading.Event()
        self._lock = threading.Lock()
        self._is_on = False

    def begin(self) -> None:
        """Begin, unless it goes on already."""
        with self._lock:
            if not self._is_on:
                self._is_on = True
                self._is_ending = threading.Event()
                threading.Thread(target=self._run, name="pulse", daemon=True).start()

    def _run(self) -> None:
        is_ending = self._is_ending
        while not is_ending.wait(PULSE_S):
            with self._lock:
                hearing = self._hearing()
                if not hearing:
                    self._is_on = False
                    return
            for one in hearing:
                one.take_news()
            del hearing  # else the last one to be closed would be kept alive until the next round

    def end(self) -> None:
        """End."""
        with self._lock:
            self._is_on = False
            self._is_ending.set()
