"""Routes: where messages go from a node, and why nowhere else; remembered, and added up.

Spec: DESIGN 3, lab.md 2 (`not_forwarded`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from mesh.model.joins import NO_JOINS, JoinRow
from mesh.model.queues import addresses_of, is_of_queue
from mesh.model.reasons import Reason

MEMO_MAX = 65_536
"""Subjects remembered per arrival before the older half is forgotten."""

ROUTES_MAX = 65_536
"""Distinct routes shared before all of them are forgotten: clients choose subjects, and each may
have different endpoints."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """How a message arrived here; with its subject and class it decides where it goes.

    Attributes:
        zone: Zone it arrived on, or empty if it was published here.
        neighbour: The node it was received from, or empty.
        crossed_external: Whether it has crossed an external link.
        row: Joins crossed in a row.
        barred: Neighbours whose links are too new for it, sorted. Spec: K10.
    """

    zone: str = ""
    neighbour: str = ""
    crossed_external: bool = False
    row: JoinRow = NO_JOINS
    barred: tuple[str, ...] = ()


PUBLISHED_HERE = Arrival()

RouteKey = tuple[
    tuple[str, ...],
    tuple[str, ...],
    tuple[tuple[str, Reason], ...],
    tuple[str, ...],
    tuple[tuple[str, str], ...],
    tuple[str, ...],
    tuple[str, ...],
]


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """Where messages go; equal routes of a router are one object, unless they name a subject.

    Attributes:
        neighbours: Links they leave on, sorted.
        endpoints: Endpoints of this node that they are delivered to, sorted.
        refused: The one reason for every other link of this node.
        asks: Those of `neighbours` whose links select by headers too: see `Router.selected`.
        addressed: Links on which they leave under another subject, and that subject: it names
            members of queues, and the clients' subject too if others behind the link want them.
        homeless: Queues for which nobody gets them: this node's, whose home is not linked to it,
            or one that left it while copies were under way.
        widened: Links and endpoints that get them by a wider filter than they subscribed.
    """

    neighbours: tuple[str, ...]
    endpoints: tuple[str, ...]
    refused: tuple[tuple[str, Reason], ...]
    asks: tuple[str, ...] = ()
    addressed: tuple[tuple[str, str], ...] = ()
    homeless: tuple[str, ...] = ()
    widened: tuple[str, ...] = ()

    @property
    def names_a_client_subject(self) -> bool:
        """Whether a client's subject is in it: then it serves messages of that subject only."""
        several = (one for _, text in self.addressed for one in addresses_of(text))
        return any(not is_of_queue(one) for one in several)


@dataclass(slots=True)
class RouteSum:
    """Several routes of one message: it leaves on a link if one of them does."""

    neighbours: dict[str, None] = field(default_factory=dict)
    endpoints: dict[str, None] = field(default_factory=dict)
    refused: dict[str, Reason] = field(default_factory=dict)
    asks: dict[str, None] = field(default_factory=dict)
    addressed: tuple[tuple[str, str], ...] = ()
    homeless: tuple[str, ...] = ()
    widened: dict[str, None] = field(default_factory=dict)

    @classmethod
    def of(cls, routes: Iterable[Route]) -> Self:
        """Return the sum of some routes."""
        total = cls()
        for route in routes:
            total.add(route)
        return total

    def add(self, route: Route) -> None:
        """Add one route: that nobody wants a message is the weakest of all reasons."""
        self.neighbours.update(dict.fromkeys(route.neighbours))
        self.endpoints.update(dict.fromkeys(route.endpoints))
        self.asks.update(dict.fromkeys(route.asks))
        self.homeless += route.homeless
        self.widened.update(dict.fromkeys(route.widened))
        for neighbour, reason in route.refused:
            if self.refused.get(neighbour, Reason.NO_INTEREST) is Reason.NO_INTEREST:
                self.refused[neighbour] = reason

    def key(self) -> RouteKey:
        """Return the contents that identify a route."""
        refused = sorted(item for item in self.refused.items() if item[0] not in self.neighbours)
        neighbours, endpoints = tuple(sorted(self.neighbours)), tuple(sorted(self.endpoints))
        asks = tuple(sorted(self.asks))
        return (
            neighbours,
            endpoints,
            tuple(refused),
            asks,
            self.addressed,
            self.homeless,
            tuple(sorted(self.widened)),
        )


Alike = dict[tuple[object, ...], Route]
"""What subjects may have in common -> the route they then share."""

ALIKE_MAX = 4_096
"""How many are remembered per arrival before all are forgotten."""


@dataclass(slots=True)
class Memo:
    """Subject -> route for one arrival and class, in two generations instead of a true LRU.

    Attributes:
        young, old: The generations.
        alike: Routes of subjects that are alike, including subjects not seen before.
    """

    young: dict[str, Route] = field(default_factory=dict)
    old: dict[str, Route] = field(default_factory=dict)
    alike: Alike = field(default_factory=dict)

    def get(self, subject: str) -> Route | None:
        """Return what is remembered."""
        route = self.young.get(subject)
        if route is None and (route := self.old.get(subject)) is not None:
            self.put(subject, route)
        return route

    def put(self, subject: str, route: Route) -> None:
        """Remember a route."""
        if len(self.young) >= MEMO_MAX // 2:
            self.old, self.young = self.young, {}
        self.young[subject] = route
