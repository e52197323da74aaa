"""Whom a lost link has cut off: asked of everybody who can be reached, told once.

A change of colour alone does not show who is gone. So when a link is lost, and an application
here wants to know, the node counts who answers and compares with the last count. Whether those
who are missing are dead or only cut off nobody on this side can tell. Spec: tree_layer 7.4.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mesh.model.tree_apps import Answered, SendWanted, SplitTold
from mesh.model.tree_frames import Options, ReplyKind
from mesh.model.tree_nodes import NODES, decode_node

CALL = "nodes-"
"""Calls of counts begin so."""

TRIES_MAX = 5
"""How often a count begins anew that could not hear everybody."""


@dataclass(slots=True)
class Splits:
    """The counts of one incarnation of a node.

    Attributes:
        watchers: Applications that want to know.
        known: Who answered the last count, None before the first.
    """

    watchers: dict[str, None] = field(default_factory=dict)
    known: frozenset[str] | None = None
    _running: str = ""
    _counts: int = 0
    _tries: int = 0
    _is_stale: bool = False
    _names: set[str] = field(default_factory=set)
    _is_whole: bool = True

    def want(self, app: str) -> SendWanted | None:
        """Take an application in; return the count to begin, if any."""
        self.watchers[app] = None
        return self._begin() if self.known is None and not self._running else None

    def part(self, app: str) -> None:
        """Leave an application out."""
        self.watchers.pop(app, None)
        if not self.watchers:
            self.known = None  # nobody counts on: who leaves meanwhile would be missed for ever

    def changed(self) -> SendWanted | None:
        """A link was lost, or parts became one; return the count to begin, if any."""
        self._tries = 0
        if self._running:
            self._is_stale = True
            return None
        return self._begin() if self.watchers else None

    def heard(self, said: Answered) -> tuple[SplitTold | None, SendWanted | None]:
        """Take an answer; return what applications are told, and the count to begin."""
        if said.call != self._running:
            return None, None
        for item in said.items:
            self._names |= _name(item)
        self._is_whole &= said.kind in (ReplyKind.DATA, ReplyKind.END)
        if not said.is_last:
            return None, None
        self._running = ""
        if self._is_stale or not self._is_whole:
            self._tries += 1
            return None, self._begin() if self._tries < TRIES_MAX else None
        if not self.watchers:
            return None, None
        seen, before = frozenset(self._names), self.known or frozenset()
        self.known = seen
        lost = before - seen
        return (SplitTold(tuple(sorted(seen)), tuple(sorted(lost))) if lost else None), None

    def _begin(self) -> SendWanted:
        self._counts += 1
        self._running = f"{CALL}{self._counts}"
        self._is_stale, self._is_whole, self._names = False, True, set()
        return SendWanted("", self._running, NODES, options=Options(one_response=True))


def _name(item: bytes) -> set[str]:
    try:
        return {decode_node(item).node}
    except ValueError:
        return set()
