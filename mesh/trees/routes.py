"""What a node knows of the way to roles: trees, their edges, and two maps of routes per role.

Data only; who may change it is `mesh.trees.installing`. Spec: tree_layer 3, 5.14.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from mesh.model.tree_apps import RouteReason
from mesh.model.trees import NO_INSTANCE, Extent, InstanceId, TreeId

LOST_MAX = 1_000
"""Instances of one role that are gone and whose last value is kept against loops: what comes late
is of those that went last."""


class LastHeard(NamedTuple):
    """What a node has heard of an instance, and since when.

    Attributes:
        value: What orders routes to it: `InstanceRoute.value`.
    """

    value: tuple[int, int]
    since_ms: int

    @classmethod
    def ended(cls, seq: int, now_ms: int) -> LastHeard:
        """Return what is known of an instance that has ended with this seq: no way is as short."""
        return cls((seq, 0), now_ms)

    @property
    def has_ended(self) -> bool:
        """Whether it is an end, and no way that was lost."""
        return not self.value[1]


class InstanceRoute(NamedTuple):
    """The next link towards an instance.

    Attributes:
        seq: Of the instance when it was published, recovered or moved.
        hops: Links from here to it, then.
        reason: By what it came to be known.
        since_ms: When.
        extent: How far the instance is known.
    """

    link: str
    seq: int
    hops: int
    reason: RouteReason
    since_ms: int
    extent: Extent = Extent.CLOUD

    @property
    def value(self) -> tuple[int, int]:
        """Return what orders routes to one instance: towards it the value never falls.

        Spec: tree_layer 5.2 (H2).
        """
        return (self.seq, -self.hops)

    @property
    def known(self) -> LastHeard:
        """Return what is remembered of it when it is gone."""
        return LastHeard(self.value, self.since_ms)

    def is_open(self, *, from_outside: bool) -> bool:
        """Return whether a message may follow it.

        One that has left the realm finds nobody who is known in a realm alone.
        Spec: tree_layer 5.2.
        """
        return not from_outside or self.extent is not Extent.REALM


@dataclass(slots=True)
class RouteMap:
    """Instance -> route, and what is remembered of routes that are gone.

    Attributes:
        lost: Of instances that have no route now, the last one. H2.
        is_certified: A recovery that began here has shown that the map is whole.
        generation: Raised whenever a route is lost or the certificate ends. H8.
    """

    routes: dict[InstanceId, InstanceRoute] = field(default_factory=dict)
    lost: dict[InstanceId, LastHeard] = field(default_factory=dict)
    is_certified: bool = False
    generation: int = 0

    def known(self, iid: InstanceId) -> LastHeard | None:
        """Return what is known of an instance; a new route to it must exceed that value."""
        route = self.routes.get(iid)
        return self.lost.get(iid) if route is None else route.known

    def remember(self, iid: InstanceId, known: LastHeard) -> None:
        """Keep what orders routes that are gone; of many, those of the oldest are forgotten."""
        self.lost.pop(iid, None)
        self.lost[iid] = known
        if len(self.lost) > LOST_MAX:
            del self.lost[next(iter(self.lost))]

    def links(
        self,
        iid: InstanceId,
        *,
        from_outside: bool = False,
        but: Container[InstanceId] = (),
    ) -> dict[str, None]:
        """Return the links towards one instance, or all for 0: `InstanceRoute.is_open` says which.

        Args:
            iid: Which one.
            from_outside: They are for a message that has left the realm.
            but: Instances that have it already.
        """
        meant = (iid,) if iid else self.routes
        routes = (self.routes[one] for one in meant if one in self.routes and one not in but)
        return dict.fromkeys(one.link for one in routes if one.is_open(from_outside=from_outside))

    def doubt(self) -> None:
        """End the certificate: the next send recovers."""
        self.is_certified = False
        self.generation += 1


@dataclass(slots=True)
class RoleRoutes:
    """What is known of one role.

    Attributes:
        everywhere: The map that messages follow.
        realm: Links of the realm alone: the map of `local_realm` messages, H16, and of all that
            have not left the realm while one alone holds the role there.
        exclusive: The instance that holds the role alone everywhere, 0 for none known.
        exclusive_inside: The one that does so in the realm alone. It is in the map of the realm
            only: others are found beyond, by messages from there.
        heals: Heals that were taken into account. Spec: tree_layer 7.3.
    """

    name: str
    everywhere: RouteMap = field(default_factory=RouteMap)
    realm: RouteMap = field(default_factory=RouteMap)
    exclusive: InstanceId = NO_INSTANCE
    exclusive_inside: InstanceId = NO_INSTANCE
    heals: int = 0

    def map(self, scope: Extent) -> RouteMap:
        """Return the map of CLOUD or REALM."""
        return self.realm if scope is Extent.REALM else self.everywhere

    def maps(self) -> Iterator[RouteMap]:
        """Yield both maps."""
        yield self.everywhere
        yield self.realm


@dataclass(slots=True)
class TreeEdge:
    """The link is part of the tree.

    Attributes:
        routes: How many routes lead over it from here.
        is_asking: The peer was asked whether it may go.
    """

    routes: int = 0
    is_asking: bool = False


@dataclass(slots=True)
class Tree:
    """One addressing context, as far as this node knows it."""

    id: TreeId
    roles: dict[str, RoleRoutes] = field(default_factory=dict)
    edges: dict[str, TreeEdge] = field(default_factory=dict)

    def role(self, name: str) -> RoleRoutes:
        """Return what is known of a role, empty at first."""
        found = self.roles.get(name)
        if found is None:
            found = self.roles[name] = RoleRoutes(name)
        return found
