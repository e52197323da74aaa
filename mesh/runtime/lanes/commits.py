"""Commits wait for brokers beside the loop, each lane's for itself. Spec: K17."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Protocol

THREADS_MAX = 16
"""Commits that wait side by side; a thread is made when one is needed."""

WAIT_S = 0.2
"""So long the loop waits for the commits of a turn, all together: mostly they are through by then,
and lanes need not be left and taken up again."""


class Commits(Protocol):
    """Has transactions committed."""

    def begin(self, commit: Callable[[], None]) -> Future[None]:
        """Begin a commit; what comes of it is in the future."""

    def wait(self, begun: Sequence[Future[None]]) -> None:
        """Wait a moment for what was begun."""

    def close(self) -> None:
        """Begin no more; who waits for one that is under way has to do so."""


class CommitsAtOnce:
    """Waits for each commit right away: for the simulator, where none takes time."""

    def begin(self, commit: Callable[[], None]) -> Future[None]:
        """Commit."""
        done: Future[None] = Future()
        try:
            commit()
        except Exception as error:  # noqa: BLE001 - raised where the outcome is asked for
            done.set_exception(error)
        else:
            done.set_result(None)
        return done

    def wait(self, begun: Sequence[Future[None]]) -> None:
        """Do nothing: all are through."""

    def close(self) -> None:
        """Do nothing: none is under way."""


class ThreadedCommits:
    """Gives each commit a thread."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="commit")

    def begin(self, commit: Callable[[], None]) -> Future[None]:
        """Begin a commit in a thread of its own."""
        return self._threads.submit(commit)

    def wait(self, begun: Sequence[Future[None]]) -> None:
        """Wait a moment for what was begun."""
        wait(begun, WAIT_S)

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False)
