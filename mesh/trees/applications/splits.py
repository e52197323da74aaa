"""Who can be reached: all are asked, and applications told who is lost and who is found.

A change of colour alone does not show who is gone. So when a link is lost, and an application
here wants to know, the node counts who answers and compares with who ever did. Whether those who
are missing are dead or only cut off nobody on this side can tell. A node that joins has lost
nothing and changes no colour, so the node counts from time to time as well.
Spec: tree_layer 7.4.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from mesh.model.tree_apps import Answered, NodesFound, NodesLost, SendWanted
from mesh.model.tree_frames import Options, ReplyKind
from mesh.model.tree_nodes import NODES, nodes_in

CALL = "nodes-"
"""Calls of counts begin so."""

TRIES_MAX = 5
"""How often a count that could not hear everybody is repeated at once."""

COUNT_MS = 30_000
"""How long after a count the next one begins by itself."""

NOTHING: tuple[Sequence[NodesLost | NodesFound], SendWanted | None] = ((), None)


@dataclass(slots=True)
class SplitCounts:
    """The counts of one incarnation of a node.

    Attributes:
        is_watched: An application wants to know.
        reached: Who answered the last count, None before the first.
        lost: Who answered an earlier one, and not the last.
        due_ms: When the next count begins by itself, None while none is to.
        members: The nodes of the mesh, None if that is not known: nobody else is missed or found.
    """

    is_watched: bool = False
    reached: frozenset[str] | None = None
    lost: frozenset[str] = frozenset()
    due_ms: int | None = None
    members: frozenset[str] | None = None
    _running: str = ""
    _counts: int = 0
    _tries: int = 0
    _is_stale: bool = False
    _names: set[str] = field(default_factory=set)
    _is_whole: bool = True

    def begin(self) -> SendWanted | None:
        """Count from now on; return the count to begin, if any."""
        self.is_watched = True
        return self._count() if self.reached is None and not self._running else None

    def end(self) -> None:
        """Stop counting: nodes that leave meanwhile would be missed for ever."""
        self.is_watched, self.reached, self.lost, self.due_ms = False, None, frozenset(), None

    def changed(self) -> SendWanted | None:
        """A link was lost, or parts became one; return the count to begin, if any."""
        self._tries = 0
        if self._running:
            self._is_stale = True
            return None
        return self._count() if self.is_watched else None

    def tick(self, now_ms: int) -> SendWanted | None:
        """Return the count that is due, if any."""
        is_due = self.due_ms is not None and now_ms >= self.due_ms
        return self.changed() if is_due else None

    def follow(self, members: Collection[str]) -> None:
        """Know the nodes of the mesh; one that was taken out may still answer for a while."""
        self.members = frozenset(members)
        self.lost &= self.members
        if self.reached is not None:
            self.reached &= self.members

    def heard(
        self, said: Answered, now_ms: int
    ) -> tuple[Sequence[NodesLost | NodesFound], SendWanted | None]:
        """Take an answer; return what applications are told, and the count to begin."""
        if said.call != self._running:
            return NOTHING
        self._names |= {one.node for one in nodes_in(said.items)}
        self._is_whole &= said.kind in (ReplyKind.DATA, ReplyKind.END)
        if not said.is_last:
            return NOTHING
        self._running = ""
        self.due_ms = now_ms + COUNT_MS if self.is_watched else None
        if self._is_stale or not self._is_whole:
            self._tries += 1
            return (), self._count() if self._tries < TRIES_MAX else None
        return (self._compared(frozenset(self._names)) if self.is_watched else ()), None

    def _compared(self, seen: frozenset[str]) -> Sequence[NodesLost | NodesFound]:
        if self.members is not None:
            seen &= self.members
        before = seen if self.reached is None else self.reached
        missing = (self.lost | before) - seen
        news, found = missing - self.lost, seen - before
        self.reached, self.lost = seen, missing
        here, gone = tuple(sorted(seen)), tuple(sorted(missing))
        split = [NodesLost(here, gone)] if news else []
        return [*split, NodesFound(here, gone, tuple(sorted(found)))] if found else split

    def _count(self) -> SendWanted:
        self._counts += 1
        self._running = f"{CALL}{self._counts}"
        self._is_stale, self._is_whole, self._names = False, True, set()
        self.due_ms = None
        return SendWanted("", self._running, NODES, options=Options(one_response=True))
