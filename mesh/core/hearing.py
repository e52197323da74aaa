"""What endpoints gain and lose where nodes keep subjects local. Spec: EMS-11, DESIGN 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mesh.core.audience import AudienceChange, EndpointFilter
from mesh.core.controls import covers, filters_at
from mesh.core.reach import tree_from
from mesh.core.walks import Graph
from mesh.model.controls import ControlKind
from mesh.model.topology import Topology

Heard = Mapping[EndpointFilter, Sequence[str]]
"""Endpoint's filter -> nodes of which it gets something that is published there, sorted."""


def heard(subscriptions: Sequence[EndpointFilter], topology: Topology) -> Heard:
    """Return whose messages each filter brings to its endpoint.

    A node is left out if no walk leads from it, or if some node on the walk keeps all of the
    filter local; of one that keeps a part of it local, the rest comes.
    """
    graph = Graph.of(topology)
    local = {node: filters_at(topology, node, ControlKind.LOCAL) for node in topology.nodes}
    found: dict[EndpointFilter, list[str]] = {}
    for source in sorted(topology.nodes):
        ways = {node: visit.walk().nodes for node, visit in tree_from(graph, source).items()}
        for subscription in subscriptions:
            way = ways.get(subscription.node, ())
            barred = any(covers(one, subscription.filter) for node in way for one in local[node])
            if subscription.node == source or (way and not barred):
                found.setdefault(subscription, []).append(source)
    return found


def compare_heard(
    subscriptions: Sequence[EndpointFilter], before: Topology, after: Topology
) -> Sequence[AudienceChange]:
    """Return which endpoints gain or lose which publishers, by walks and by what is kept local.

    What becomes of an endpoint's own node is told as in `compare_audience`.
    """
    old, new = heard(subscriptions, before), heard(subscriptions, after)
    found: list[AudienceChange] = []
    for subscription in sorted(subscriptions):
        had, has = old.get(subscription, ()), new.get(subscription, ())
        gains = tuple(one for one in has if one not in had)
        loses = tuple(one for one in had if one not in has)
        if gains or loses:
            found.append(AudienceChange(subscription=subscription, gains=gains, loses=loses))
    return found
