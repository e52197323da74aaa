"""What a node knows of the ways to roles, written to `routes` for whoever only looks.

Nobody has to ask, and so to write, to see it. A mesh without roles stays silent, and so does one
whose routes stay as they are. Spec: tree_layer 8.
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
"""Roles that are reported, those of the trees used last first: there is no end to names that people
make up. A node tells of the others when it is asked (`mesh role route`)."""

AT_ONCE = 200
"""Roles looked at in one go: where there are thousands, some are reported seconds later."""

AGAIN_MS = 6 * 3600 * 1000
"""After so long what still holds is said again: the topic forgets what is older than a day, which
a former incarnation may have said."""


@dataclass(slots=True)
class RouteTeller:
    """Knows what was reported."""

    _told: dict[Address, tuple[RoutesTold | None, int]] = field(default_factory=dict)
    _rest: list[Address] = field(default_factory=list)

    def forget(self) -> None:
        """Have all reported again, also what is no longer known: nobody may have heard that."""
        self._told = dict.fromkeys(self._told, (None, 0))
        self._rest.clear()

    def news(self, node: TreeNode, now_ms: int) -> Iterator[tuple[Address, RoutesTold | None]]:
        """Yield what differs from what was reported; None where nothing is known any more.

        What heartbeats tell of a node, its links and its colour, is left out.
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
