"""The process in which client library objects were made: their threads do not exist in a fork."""

from __future__ import annotations

import os

from mesh.errors import ClosedError


class ProcessGuard:
    """Remembers the present process; what is made in it is useless in another one.

    Args:
        what: What was made, in words for people.
    """

    def __init__(self, what: str) -> None:
        self._what, self._process = what, os.getpid()

    @property
    def is_forked(self) -> bool:
        """Whether this process was forked since: what is open belongs to the other one."""
        return os.getpid() != self._process

    def check(self) -> None:
        """Refuse to continue in a fork.

        Raises:
            ClosedError: This process is a fork.
        """
        if self.is_forked:
            raise ClosedError(
                f"{self._what} was made before this process was forked; connect in it"
            )
