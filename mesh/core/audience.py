"""Whose messages a mesh's endpoints get under two topologies, and over how many links.

Spec: DESIGN 3, EMS-11.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.core.interest_controls import covers, filters_at
from mesh.core.walks import Tree, Visit
from mesh.model.interest_controls import ControlKind
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
    """Links that a message of a filter crosses, as if it were the only filter.

    Attributes:
        copies: Source -> links crossed before and after, where that changes.
    """

    filter: str
    copies: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Audience:
    """The changes for subscriptions, source by source.

    Attributes:
        at_node: Subscriptions by node, in order.
        wanting: Filter -> nodes that want it.
        local: Filters that nodes keep local, before and after; nodes without any are left out.
        gains, loses: Subscription -> sources.
        crossed: Nodes that want a filter -> source -> links crossed before and after.
    """

    at_node: Mapping[str, Sequence[EndpointFilter]]
    wanting: Mapping[str, tuple[str, ...]]
    local: tuple[Mapping[str, Sequence[str]], Mapping[str, Sequence[str]]]
    gains: dict[EndpointFilter, list[str]] = field(default_factory=dict)
    loses: dict[EndpointFilter, list[str]] = field(default_factory=dict)
    crossed: dict[tuple[str, ...], dict[str, tuple[int, int]]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, subscriptions: Iterable[EndpointFilter], before: Topology, after: Topology
    ) -> Audience:
        """Return an audience for which no source has been compared yet."""
        at_node: dict[str, list[EndpointFilter]] = {}
        wanting: dict[str, dict[str, None]] = {}
        for one in sorted(dict.fromkeys(subscriptions)):
            at_node.setdefault(one.node, []).append(one)
            wanting.setdefault(one.filter, {})[one.node] = None
        nodes = {filter_: tuple(found) for filter_, found in wanting.items()}
        crossed: dict[tuple[str, ...], dict[str, tuple[int, int]]] = {n: {} for n in nodes.values()}
        return cls(at_node, nodes, (_kept_local(before), _kept_local(after)), crossed=crossed)

    def look_at(self, source: str, old: Tree | None, new: Tree | None) -> None:
        """Compare the audience of one source's messages."""
        was_local, is_local = self.local
        for node, listed in self.at_node.items():
            same = _reaches(source, old, node) == _reaches(source, new, node)
            if same and not (was_local or is_local):
                continue
            for one in listed:
                comes = _brings(source, new, is_local, one)
                if comes != _brings(source, old, was_local, one):
                    (self.gains if comes else self.loses).setdefault(one, []).append(source)
        if old is None or new is None:
            return
        for nodes, changed in self.crossed.items():
            was, now = (_links_crossed(tree, source, nodes) for tree in (old, new))
            if was != now:
                changed[source] = (was, now)

    def changes(self) -> Iterator[AudienceChange]:
        """Yield subscriptions that gain or lose publishers, in order."""
        for one in sorted({**self.gains, **self.loses}):
            gains, loses = tuple(self.gains.get(one, ())), tuple(self.loses.get(one, ()))
            yield AudienceChange(subscription=one, gains=gains, loses=loses)

    def copies(self) -> Iterator[CopiesChange]:
        """Yield filters whose messages cross more or fewer links."""
        for filter_, nodes in self.wanting.items():
            if changed := self.crossed[nodes]:
                yield CopiesChange(filter=filter_, copies=changed)


def _kept_local(topology: Topology) -> Mapping[str, Sequence[str]]:
    found = {node: filters_at(topology, node, ControlKind.LOCAL) for node in topology.nodes}
    return {node: filters for node, filters in found.items() if filters}


def _reaches(source: str, tree: Tree | None, node: str) -> bool:
    return tree is not None and (node == source or node in tree)


def _brings(
    source: str, tree: Tree | None, local: Mapping[str, Sequence[str]], one: EndpointFilter
) -> bool:
    """Return whether messages of a source reach an endpoint by one of its filters.

    They do not if some node on the walk keeps the whole filter local; if it keeps a part of it
    local, the rest comes. At their own node nothing is kept from them.
    """
    if tree is None or not _reaches(source, tree, one.node):
        return False
    if not local or one.node == source:
        return True
    return not any(
        covers(kept, one.filter)
        for node in tree[one.node].walk().nodes
        for kept in local.get(node, ())
    )


def _links_crossed(tree: Tree, source: str, wanting: Sequence[str]) -> int:
    """Return how many links one message of a source crosses if exactly these nodes want it."""
    passed = {source: None}
    for node in wanting:
        visit: Visit | None = tree.get(node)
        while visit is not None and visit.node not in passed:
            passed[visit.node] = None
            visit = visit.before
    return len(passed) - 1
