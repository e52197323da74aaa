"""Whose messages the endpoints of a mesh get under two topologies, and over how many links.

Spec: DESIGN 3, EMS-11.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.core.controls import covers, filters_at
from mesh.core.reach import Tree, links_crossed, tree_from
from mesh.core.walks import Graph
from mesh.model.controls import ControlKind
from mesh.model.topology import Topology


@dataclass(frozen=True, slots=True, order=True)
class EndpointFilter:
    """One filter of one endpoint."""

    node: str
    endpoint: str
    filter: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AudienceChange:
    """An endpoint that newly or no longer gets what some nodes publish.

    Attributes:
        gains, loses: Nodes where it is published, sorted.
    """

    subscription: EndpointFilter
    gains: Sequence[str]
    loses: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiesChange:
    """Links that a message of a filter crosses.

    Attributes:
        copies: Source -> links crossed before and after, where that changes.
    """

    filter: str
    copies: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Ways:
    """How messages of one source come to nodes under one topology.

    Attributes:
        source: Where they are published; empty if there is no such node.
        tree: The walks.
        local: Filters that nodes keep local; nodes without any are left out.
    """

    source: str
    tree: Tree
    local: Mapping[str, Sequence[str]]

    def reach(self, node: str) -> bool:
        """Return whether they come to a node at all."""
        return node == self.source or node in self.tree

    def bring(self, subscription: EndpointFilter) -> bool:
        """Return whether they come to an endpoint by one of its filters.

        They do not if some node on the walk keeps all of the filter local; of one that keeps a
        part of it local, the rest comes. At their own node nothing is kept from them.
        """
        if not self.reach(subscription.node):
            return False
        if not self.local or subscription.node == self.source:
            return True
        return not any(
            covers(local, subscription.filter)
            for node in self.tree[subscription.node].walk().nodes
            for local in self.local.get(node, ())
        )


@dataclass(slots=True)
class _Topology:
    """One of the two topologies."""

    topology: Topology
    graph: Graph = field(init=False)
    local: dict[str, Sequence[str]] = field(init=False)

    def __post_init__(self) -> None:
        self.graph = Graph.of(self.topology)
        found = {n: filters_at(self.topology, n, ControlKind.LOCAL) for n in self.topology.nodes}
        self.local = {node: filters for node, filters in found.items() if filters}

    def ways(self, source: str) -> _Ways:
        """Return how messages of a source come to nodes."""
        if source not in self.topology.nodes:
            return _Ways("", {}, self.local)
        return _Ways(source, tree_from(self.graph, source), self.local)


def compare_audience(
    subscriptions: Iterable[EndpointFilter], before: Topology, after: Topology
) -> tuple[Sequence[AudienceChange], Sequence[CopiesChange]]:
    """Return what two legal topologies change for the subscriptions in force.

    The endpoints of a node that is deleted lose everything, its own clients' messages too. Of
    copies each filter is looked at as if it were the only one.

    Returns:
        Which endpoints gain or lose which publishers, and where messages that match a filter
        cross more or fewer links.
    """
    ordered = sorted(dict.fromkeys(subscriptions))
    at_node: dict[str, list[EndpointFilter]] = {}
    wanting: dict[str, dict[str, None]] = {}
    for one in ordered:
        at_node.setdefault(one.node, []).append(one)
        wanting.setdefault(one.filter, {})[one.node] = None
    crossings = {tuple(nodes): _Crossings(tuple(nodes)) for nodes in wanting.values()}
    gains: dict[EndpointFilter, list[str]] = {}
    loses: dict[EndpointFilter, list[str]] = {}
    had, has = _Topology(before), _Topology(after)
    for source in sorted({**before.nodes, **after.nodes}) if ordered else ():
        old, new = had.ways(source), has.ways(source)
        for node, listed in at_node.items():
            if not (old.local or new.local) and old.reach(node) == new.reach(node):
                continue
            for one in listed:
                if (comes := new.bring(one)) != old.bring(one):
                    (gains if comes else loses).setdefault(one, []).append(source)
        if old.source and new.source:
            for crossed in crossings.values():
                crossed.look_at(source, old.tree, new.tree)
    changes = [
        AudienceChange(
            subscription=one, gains=tuple(gains.get(one, ())), loses=tuple(loses.get(one, ()))
        )
        for one in ordered
        if one in gains or one in loses
    ]
    return changes, list(_copies(wanting, crossings))


@dataclass(frozen=True, slots=True)
class _Crossings:
    """Links crossed to a set of nodes, by source, where that changes."""

    nodes: tuple[str, ...]
    changed: dict[str, tuple[int, int]] = field(default_factory=dict)

    def look_at(self, source: str, old: Tree, new: Tree) -> None:
        """Compare what one source's messages cross."""
        was, now = (links_crossed(tree, source, self.nodes) for tree in (old, new))
        if was != now:
            self.changed[source] = (was, now)


def _copies(
    wanting: Mapping[str, Mapping[str, None]], crossings: Mapping[tuple[str, ...], _Crossings]
) -> Iterator[CopiesChange]:
    for filter_, nodes in wanting.items():
        if changed := crossings[tuple(nodes)].changed:
            yield CopiesChange(filter=filter_, copies=changed)
