"""Which process something of the client library was made in: its threads are in no fork of it."""

from __future__ import annotations

import os

from mesh.errors import ClosedError


class ProcessGuard:
    """Notes the present process; what is made in it is of no use in another one.

    Args:
        what: What was made, for people.
    """

    def __init__(self, what: str) -> None:
        self._what, self._process = what, os.getpid()

    @property
    def is_forked(self) -> bool:
        """Whether this process was forked since: what is open belongs to the other one."""
        return os.getpid() != self._process

    def check(self) -> None:
        """Refuse to go on in a fork.

        Raises:
            ClosedError: This is one.
        """
        if self.is_forked:
            raise ClosedError(
                f"{self._what} was made before this process was forked; connect in it"
            )
