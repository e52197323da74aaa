"""Whose messages the endpoints of a mesh get under two topologies, and over how many links.

Spec: DESIGN 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.core.reach import ReachChange, links_crossed, tree_from
from mesh.core.walks import Graph
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


def compare_audience(
    subscriptions: Iterable[EndpointFilter], reach: ReachChange, after: Topology
) -> Sequence[AudienceChange]:
    """Return which endpoints gain or lose which publishers.

    The endpoints of a node that is deleted lose everything, its own clients' messages too.
    """
    gained: dict[str, list[str]] = {}
    lost: dict[str, list[str]] = {}
    for one in reach.sources:
        for node in one.gained:
            gained.setdefault(node, []).append(one.source)
        for node in one.lost:
            lost.setdefault(node, []).append(one.source)
    found: list[AudienceChange] = []
    for subscription in sorted(subscriptions):
        loses = lost.get(subscription.node, [])
        if subscription.node not in after.nodes:
            loses = sorted([*loses, subscription.node])
        if loses or subscription.node in gained:
            gains = tuple(gained.get(subscription.node, ()))
            found.append(AudienceChange(subscription=subscription, gains=gains, loses=tuple(loses)))
    return found


def compare_copies(
    subscriptions: Iterable[EndpointFilter], before: Topology, after: Topology
) -> Sequence[CopiesChange]:
    """Return where messages that match a filter in force cross more or fewer links than before.

    Each filter is looked at as if it were the only one.
    """
    wanting: dict[str, dict[str, None]] = {}
    for subscription in sorted(subscriptions):
        wanting.setdefault(subscription.filter, {})[subscription.node] = None
    alike: dict[tuple[str, ...], _Crossings] = {}
    for nodes in wanting.values():
        alike.setdefault(tuple(nodes), _Crossings(tuple(nodes)))
    old, new = Graph.of(before), Graph.of(after)
    for source in sorted(node for node in before.nodes if node in after.nodes) if alike else ():
        old_tree, new_tree = tree_from(old, source), tree_from(new, source)
        for crossings in alike.values():
            was = links_crossed(old_tree, source, crossings.nodes)
            now = links_crossed(new_tree, source, crossings.nodes)
            if was != now:
                crossings.changed[source] = (was, now)
    return list(_copies(wanting, alike))


@dataclass(frozen=True, slots=True)
class _Crossings:
    """Links crossed to a set of nodes, by source, where that changes."""

    nodes: tuple[str, ...]
    changed: dict[str, tuple[int, int]] = field(default_factory=dict)


def _copies(
    wanting: Mapping[str, Mapping[str, None]], alike: Mapping[tuple[str, ...], _Crossings]
) -> Iterator[CopiesChange]:
    for filter_, nodes in wanting.items():
        if changed := alike[tuple(nodes)].changed:
            yield CopiesChange(filter=filter_, copies=changed)
