"""Tasks that run beside a scenario on real brokers, each in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

PAUSE_S = 0.05
STOP_S = 60.0
"""Longer than any call to Kafka waits."""


class Companions:
    """Calls each task again and again, from the start to `stop`."""

    def __init__(self, tasks: Sequence[Callable[[], None]]) -> None:
        self._stopping = threading.Event()
        self._errors: list[Exception] = []
        self._threads = [
            threading.Thread(target=self._run, args=(task,), name="lab-companion", daemon=True)
            for task in tasks
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, task: Callable[[], None]) -> None:
        try:
            while not self._stopping.wait(PAUSE_S):
                task()
        except Exception as error:  # noqa: BLE001 - raised again in the thread that stops them
            self._errors.append(error)

    def stop(self) -> None:
        """Let each end its present call; raise what one of them died of."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(STOP_S)
        if self._errors:
            raise self._errors[0]
