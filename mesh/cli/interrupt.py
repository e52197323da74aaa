"""Ctrl-C for loops that end well: as an exception it could be lost inside the client library."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interruptible(within_s: float = 60.0) -> Iterator[Callable[[], bool]]:
    """Yield what says whether Ctrl-C came; a second one ends the program at once.

    Args:
        within_s: After so long the first one does, too: brokers that hang are waited for no longer.
    """
    signals: list[int] = []
    late = threading.Timer(within_s, os.kill, (os.getpid(), signal.SIGINT))
    late.daemon = True

    def note(number: int, _frame: FrameType | None) -> None:
        signals.append(number)
        signal.signal(number, signal.SIG_DFL)
        late.start()

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(signals)
    finally:
        late.cancel()
        signal.signal(signal.SIGINT, before)
