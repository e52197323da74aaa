"""A node's knowledge of the ways to roles, written to `routes` for those who only look.

Nobody has to ask, and so to write, to see it. A mesh without roles stays silent, and so does one
whose routes do not change. Spec: tree_layer 8.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

from mesh.model.tree_apps import RoutesAsked, RoutesTold
from mesh.model.trees import Address
from mesh.trees.applications.known_routes import tell_routes
from mesh.trees.machine import TreeNode

ROLES_MAX = 1_000
"""Roles that are reported, those of the most recently used trees first: people can make up any
number of names. A node reports on the others on request (`mesh role route`)."""

AT_ONCE = 200
"""Roles looked at in one go: if there are thousands, some are reported seconds later."""

AGAIN_MS = 6 * 3600 * 1000
"""After this long, what still holds is repeated: the topic drops records older than a day, which a
former incarnation may have written."""


@dataclass(slots=True)
class RouteTeller:
    """Knows what was reported."""

    _told: dict[Address, tuple[RoutesTold | None, int]] = field(default_factory=dict)
    _rest: list[Address] = field(default_factory=list)

    def forget(self) -> None:
        """Report everything again, even what is no longer known: nobody may have heard that."""
        self._told = dict.fromkeys(self._told, (None, 0))
        self._rest.clear()

    def news(self, node: TreeNode, now_ms: int) -> Iterator[tuple[Address, RoutesTold | None]]:
        """Yield what differs from the last report; None where nothing is known any more.

        What heartbeats say about a node, its links and its colour is left out.
        """
        if not self._rest:
            self._rest = list(islice(node.addresses, ROLES_MAX))
            known = dict.fromkeys(self._rest)
            for address in [one for one in self._told if one not in known]:
                del self._told[address]
                yield address, None
        looked, self._rest = self._rest[:AT_ONCE], self._rest[AT_ONCE:]
        for address in looked:
            told = next(tell_routes(node, RoutesAsked("", "", address)))
            told = replace(told, links=(), colour="")
            bare = replace(told, routes=tuple(replace(one, age_ms=0) for one in told.routes))
            before, at_ms = self._told.get(address, (None, 0))
            if bare != before or now_ms - at_ms >= AGAIN_MS:
                self._told[address] = (bare, now_ms)
                yield address, told
