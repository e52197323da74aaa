"""Every way a message can take through a topology, under interest everywhere.

A walk is a sequence of links; where it may continue depends on how it arrived, by the table in
`mesh.core.forwarding` and nothing else. Spec: DESIGN 3, EMS-0, lab.md 3.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.core.forwarding import crosses_external, may_leave
from mesh.core.joins import row_over
from mesh.model.joins import NO_JOINS, Join, JoinRow
from mesh.model.topology import Link, Topology, ZoneKind

WALKS_MAX = 10_000
"""An illegal topology can have more walks than anyone can read; the listing stops here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """One way from an origin.

    Attributes:
        nodes: Visited nodes, origin first; it ends at the first that is repeated.
        links: Crossed links, one less than nodes.
    """

    nodes: tuple[str, ...]
    links: tuple[Link, ...]

    def __str__(self) -> str:
        """Return `a -TK-> b -WO-> c`, for people."""
        steps = zip(self.links, self.nodes[1:], strict=True)
        return self.nodes[0] + "".join(f" -{link.zone}-> {node}" for link, node in steps)

    def reversed(self) -> Walk:
        """Return the way back: without joins it is allowed too, for the table is symmetric."""
        return Walk(nodes=self.nodes[::-1], links=self.links[::-1])


@dataclass(slots=True, eq=False)
class Visit:
    """A message at a node, and how it arrived: the state from which a walk continues.

    It is not frozen only because a thousand nodes make a million of them.

    Attributes:
        node: Where it is.
        link: The link it arrived on, or None at the origin.
        crossed_external: Whether it has crossed an external link.
        row: Joins crossed in a row.
        before: The previous visit, or None at the origin.
    """

    node: str
    link: Link | None = None
    crossed_external: bool = False
    before: Visit | None = None
    row: JoinRow = NO_JOINS

    def walk(self) -> Walk:
        """Return the way that led here."""
        links: list[Link] = []
        nodes = [self.node]
        visit = self
        while visit.before is not None and visit.link is not None:
            links.append(visit.link)
            visit = visit.before
            nodes.append(visit.node)
        return Walk(nodes=tuple(reversed(nodes)), links=tuple(reversed(links)))

    def is_repeated(self) -> bool:
        """Return whether the walk has been at this node before."""
        visit = self.before
        while visit is not None:
            if visit.node == self.node:
                return True
            visit = visit.before
        return False


Tree = Mapping[str, Visit]
"""Node -> how an origin's message gets there, nearest first, without the origin."""


@dataclass(slots=True)
class Graph:
    """Links by node and zone, so that a zone in which nothing may leave costs one lookup.

    Attributes:
        kinds: Kind of each zone.
        exits: Per node and zone the links that lead away, with the node at their other end,
            sorted.
        joins: By zone.
        expanded: Visits continued from so far: the cost of searching this graph.
    """

    kinds: Mapping[str, ZoneKind]
    exits: dict[str, dict[str, list[tuple[Link, str]]]] = field(default_factory=dict)
    joins: Mapping[str, Join] = field(default_factory=dict)
    expanded: int = 0

    @classmethod
    def of(cls, topology: Topology) -> Graph:
        """Return the graph of a topology, nodes sorted."""
        kinds = {name: zone.kind for name, zone in topology.zones.items()}
        joins = {join.zone: join for join in topology.joins.values()}
        links = sorted(link for zone in topology.zones.values() for link in zone.links)
        return cls.of_links(sorted(topology.nodes), kinds, links, joins)

    @classmethod
    def of_links(
        cls,
        nodes: Iterable[str],
        kinds: Mapping[str, ZoneKind],
        links: Iterable[Link],
        joins: Mapping[str, Join] | None = None,
    ) -> Graph:
        """Return the graph of these links, in this order at each node.

        Args:
            nodes: All of them.
            kinds: Kind of each zone.
            links: Each once; a join is one, its opposite direction another.
            joins: By zone.
        """
        graph = cls(kinds, {node: {} for node in nodes}, joins or {})
        for link in links:
            for node in graph._starts(link):
                graph.exits[node].setdefault(link.zone, []).append((link, link.other(node)))
        return graph

    def _starts(self, link: Link) -> Sequence[str]:
        """Return the ends from which messages leave on a link."""
        join = self.joins.get(link.zone)
        return link.ends if join is None else (join.source,)

    def add(self, link: Link) -> None:
        """Add a link, in order."""
        for node in self._starts(link):
            exits = self.exits[node].setdefault(link.zone, [])
            insort(exits, (link, link.other(node)))

    def remove(self, link: Link) -> None:
        """Remove a link."""
        for node in self._starts(link):
            self.exits[node][link.zone].remove((link, link.other(node)))

    def has(self, link: Link) -> bool:
        """Return whether a link is in the graph."""
        node, other = link.ends
        return (link, other) in self.exits[node].get(link.zone, ())

    def onward(self, visit: Visit) -> Iterator[Visit]:
        """Yield the visits one hop further: every link on which a message may leave."""
        self.expanded += 1
        arrival = visit.link
        crossed = visit.crossed_external
        for zone, exits in self.exits[visit.node].items():
            kind = self.kinds[zone]
            if kind is ZoneKind.JOIN:
                yield from self._over_join(visit, self.joins[zone], exits)
                continue
            on_zone = arrival is not None and arrival.zone == zone
            refused = may_leave(
                kind, arrived_on_zone=on_zone, arrived_on_link=False, crossed_external=crossed
            )
            if refused is not None:
                continue
            mark = crossed or crosses_external(kind)
            for link, neighbour in exits:
                if on_zone and link == arrival:
                    refused = may_leave(
                        kind, arrived_on_zone=True, arrived_on_link=True, crossed_external=crossed
                    )
                    if refused is not None:
                        continue
                yield Visit(neighbour, link, mark, visit)

    def _over_join(
        self, visit: Visit, join: Join, exits: Iterable[tuple[Link, str]]
    ) -> Iterator[Visit]:
        """Yield the visit after a join; two in opposite directions are one link."""
        arrival = visit.link
        row = row_over(visit.row, join.hops)
        for link, neighbour in exits:
            is_back = arrival is not None and link.ends == arrival.ends
            if row is not None and not (is_back and self.is_join(arrival)):
                yield Visit(neighbour, link, visit.crossed_external, visit, row)

    def is_join(self, link: Link | None) -> bool:
        """Return whether a link is a join."""
        return link is not None and link.zone in self.joins


def walks_from(
    topology: Topology, origin: str, *, walks_max: int = WALKS_MAX
) -> Mapping[str, list[Walk]]:
    """Return every walk from a node, by the node it ends at; unreached nodes are left out.

    In a legal topology each reached node has one walk, and the origin has none. In an illegal
    one a walk ends at the first repeated node, and the listing at `walks_max` walks.

    Args:
        topology: Legal or not.
        origin: Where messages are published.
        walks_max: Largest number of walks.

    Returns:
        Nodes in the order of reach, walks shortest first.

    Spec: lab.md 3.
    """
    graph = Graph.of(topology)
    found: dict[str, list[Walk]] = {}
    count = 0
    edge = [Visit(origin)]
    while edge:
        reached: list[Visit] = []
        for visit in edge:
            for step in graph.onward(visit):
                if count >= walks_max:
                    return found
                count += 1
                found.setdefault(step.node, []).append(step.walk())
                if not step.is_repeated():
                    reached.append(step)
        edge = reached
    return found


def tree_from(graph: Graph, origin: str) -> Tree:
    """Return how messages of an origin reach every node, under interest everywhere."""
    start = Visit(origin)
    found: dict[str, Visit] = {origin: start}
    queue = [start]
    for visit in queue:
        for step in graph.onward(visit):
            if step.node not in found:
                found[step.node] = step
                queue.append(step)
    del found[origin]
    return found
