"""Commits wait for brokers beside the loop, separately for each writer. Spec: K17."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Protocol

from mesh.transport.port import Writer

THREADS_MAX = 64
"""Commits that wait side by side; threads are created on demand."""


class CommitOutcome(Protocol):
    """The outcome of a commit."""

    def done(self) -> bool:
        """Return whether it is known."""

    def result(self) -> None:
        """Wait for it.

        Raises:
            TransportError: Nothing was committed, or nobody knows.
        """

    def add_done_callback(self, call: Callable[[Any], object]) -> None:
        """Register a callback for when it is known; the thread that learns of it makes the call."""


class Commits(Protocol):
    """Commits transactions."""

    def begin(self, commit: Callable[[], None]) -> CommitOutcome | None:
        """Begin a commit; return its outcome, or None if it has already succeeded."""

    def wait(self, begun: Sequence[CommitOutcome], within_s: float) -> None:
        """Wait for commits that were begun, at most this long."""

    def close(self) -> None:
        """Begin no more; a caller that waits for one under way has to do so itself."""


@dataclass(slots=True)
class PendingCommit:
    """The commit that one writer has under way, if it has one.

    Attributes:
        is_any: Whether one was begun and has not been ended.
        outcome: What to wait for; None if there is nothing, or it has already succeeded.
    """

    is_any: bool = False
    outcome: CommitOutcome | None = None

    def begin(self, commits: Commits, commit: Callable[[], None]) -> None:
        """Begin one."""
        self.is_any, self.outcome = True, commits.begin(commit)

    @property
    def is_through(self) -> bool:
        """Whether it has ended, one way or the other, or there is none."""
        return self.outcome is None or self.outcome.done()

    def close(self, writer: Writer) -> None:
        """Close a writer as soon as it is no longer in use; nobody waits for that."""
        outcome, self.outcome, self.is_any = self.outcome, None, False
        if outcome is None:
            writer.close()
        else:
            outcome.add_done_callback(lambda _: writer.close())

    def end(self) -> None:
        """Wait for it.

        Raises:
            TransportError: Nothing was committed, or nobody knows.
        """
        outcome, self.outcome, self.is_any = self.outcome, None, False
        if outcome is not None:
            outcome.result()


@dataclass(frozen=True, slots=True)
class _Failed:
    """The outcome of a failed commit."""

    error: Exception

    def done(self) -> bool:
        return True

    def result(self) -> None:
        raise self.error

    def add_done_callback(self, call: Callable[[Any], object]) -> None:
        call(self)


class CommitsAtOnce:
    """Waits for each commit right away: for the simulator, where none takes time."""

    def begin(self, commit: Callable[[], None]) -> CommitOutcome | None:
        """Commit."""
        try:
            commit()
        except Exception as error:  # noqa: BLE001 - raised where the outcome is asked for
            return _Failed(error)
        return None

    def wait(self, begun: Sequence[CommitOutcome], within_s: float) -> None:
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

    def wait(self, begun: Sequence[CommitOutcome], within_s: float) -> None:
        """Wait for commits that were begun, at most this long."""
        wait([one for one in begun if isinstance(one, Future)], within_s)

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False)
