"""Ctrl-C for loops that end well: as an exception it could be lost inside the client library."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Yield what says whether Ctrl-C came; a second one ends the program at once."""
    signals: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        signals.append(number)
        signal.signal(number, signal.SIG_DFL)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(signals)
    finally:
        signal.signal(signal.SIGINT, before)
