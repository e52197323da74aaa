"""Commits that take time, for simulators: nobody else is kept from going on meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass


class _Late(Future[None]):
    """A commit whose outcome shows after some looks, or at once to who waits for it."""

    def __init__(self, commit: Callable[[], None], looks: int, commits: LateCommits) -> None:
        super().__init__()
        self._commit: Callable[[], None] | None = commit
        self._looks, self._commits = looks, commits
        self._error: Exception | None = None

    def commit(self) -> None:
        """Have brokers do it, if they have not yet."""
        commit, self._commit = self._commit, None
        if commit is None:
            return
        try:
            commit()
        except Exception as error:  # noqa: BLE001 - raised where the outcome is asked for
            self._error = error

    def done(self) -> bool:
        """Look."""
        if not super().done():
            self._looks -= 1
            if self._looks < 0:
                with self._commits.aside():
                    self._show()
        return super().done()

    def result(self, timeout: float | None = None) -> None:
        """Wait."""
        if not super().done():
            self._commits.waited()
            self._show()
        return super().result(timeout)

    def _show(self) -> None:
        self.commit()
        if self._error is not None:
            self.set_exception(self._error)
        else:
            self.set_result(None)


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class LateCommits:
    """Has commits show as many looks late as somebody draws.

    Attributes:
        looks: Draws how many.
        is_early: Draws whether brokers commit at once, and only their answer is late.
        waited: Told that somebody waits for one all the same.
        aside: Encloses what goes on while nobody waits.
    """

    looks: Callable[[], int]
    is_early: Callable[[], bool]
    waited: Callable[[], None] = _nothing
    aside: Callable[[], AbstractContextManager[None]] = nullcontext

    def begin(self, commit: Callable[[], None]) -> Future[None]:
        """Begin a commit."""
        late = _Late(commit, self.looks(), self)
        if self.is_early():
            with self.aside():
                late.commit()
        return late

    def wait(self, begun: Sequence[Future[None]], within_s: float) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing: nothing goes on while nobody looks."""
