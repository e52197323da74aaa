"""What endpoints gain and lose where nodes keep subjects local. Spec: EMS-11, DESIGN 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mesh.core.audience import AudienceChange, EndpointWish
from mesh.core.controls import covers, filters_at
from mesh.core.reach import tree_from
from mesh.core.walks import Graph
from mesh.model.controls import ControlKind
from mesh.model.topology import Topology

Heard = Mapping[EndpointWish, Sequence[str]]
"""Endpoint's filter -> nodes of which it gets something that is published there, sorted."""


def heard(wishes: Sequence[EndpointWish], topology: Topology) -> Heard:
    """Return whose messages each filter brings to its endpoint.

    A node is left out if no walk leads from it, or if some node on the walk keeps all of the
    filter local; of one that keeps a part of it local, the rest comes.
    """
    graph = Graph.of(topology)
    local = {node: filters_at(topology, node, ControlKind.LOCAL) for node in topology.nodes}
    found: dict[EndpointWish, list[str]] = {}
    for source in sorted(topology.nodes):
        ways = {node: visit.walk().nodes for node, visit in tree_from(graph, source).items()}
        for wish in wishes:
            way = ways.get(wish.node, ())
            barred = any(covers(one, wish.filter) for node in way for one in local[node])
            if wish.node == source or (way and not barred):
                found.setdefault(wish, []).append(source)
    return found


def compare_heard(
    wishes: Sequence[EndpointWish], before: Topology, after: Topology
) -> Sequence[AudienceChange]:
    """Return which endpoints gain or lose which publishers, by walks and by what is kept local.

    What becomes of an endpoint's own node is told as in `compare_audience`.
    """
    old, new = heard(wishes, before), heard(wishes, after)
    found: list[AudienceChange] = []
    for wish in sorted(wishes):
        had, has = old.get(wish, ()), new.get(wish, ())
        gains = tuple(one for one in has if one not in had)
        loses = tuple(one for one in had if one not in has)
        if gains or loses:
            found.append(AudienceChange(wish=wish, gains=gains, loses=loses))
    return found
