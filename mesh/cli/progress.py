"""What a command that takes a while says meanwhile."""

from __future__ import annotations

import time

from mesh.cli.render import say


class Reporter:
    """Writes progress on standard error, each line with the seconds since the start."""

    def __init__(self) -> None:
        self._started_s = time.monotonic()

    def __call__(self, message: str) -> None:
        """Write one line."""
        say(f"{time.monotonic() - self._started_s:6.1f} s  {message}")
