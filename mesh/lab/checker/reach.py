"""From where a node can be reached, straight from the words of the design. Spec: DESIGN 3."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from mesh.lab.checker.matching import wants
from mesh.model.interest_controls import ControlKind
from mesh.model.topology import Topology

Origins = dict[str, dict[str, tuple[str, ...]]]
"""Node -> the nodes whose messages must come to it -> the filters of the joins on the way.

Those whose messages a selector may refuse on the way are left out."""

ONE_HOP_KINDS = ("one-hop", "cluster")


@dataclass(frozen=True, slots=True)
class Copy:
    """Where a copy is, and all that the rules of any kind look at.

    Attributes:
        path: Nodes that it has visited, origin first.
        zone: That of the last link; empty at the origin.
        by_join: Whether that link is a join.
        has_crossed: Whether it has crossed an external link.
        limits: Hops that each join of the present row of joins allows.
        filters: Of all joins on the way.
        is_selected: Whether a selector may have refused it.
        kept: Filters of what nodes on the way keep local; nothing is kept from the origin itself.
    """

    path: tuple[str, ...]
    zone: str = ""
    by_join: bool = False
    has_crossed: bool = False
    limits: tuple[int, ...] = ()
    filters: tuple[str, ...] = ()
    is_selected: bool = False
    kept: tuple[str, ...] = ()

    def must_bring(self, subject: str) -> bool:
        """Return whether a message of a subject surely comes so far, once it is wanted there."""
        return (
            not self.is_selected
            and all(wants(one, subject) for one in self.filters)
            and not self.is_kept(subject)
        )

    def is_kept(self, subject: str) -> bool:
        """Return whether a node on the way keeps a subject local. Spec: EMS-11."""
        return any(wants(one, subject) for one in self.kept)


def copies_from(topology: Topology, source: str, *, guaranteed: bool = False) -> dict[str, Copy]:
    """Return what comes to every node of what a node publishes; nothing to where no way leads.

    Args:
        topology: The mesh.
        source: Where it is published.
        guaranteed: Whether of guaranteed messages: they cross no direct-only link. Spec: DMR-11.
    """
    found = {source: Copy((source,))} if source in topology.nodes else {}
    todo = list(found.values())
    while todo:
        copy = todo.pop()
        for further in [*_over_links(topology, copy), *_over_joins(topology, copy)]:
            node = further.path[-1]
            is_barred = guaranteed and topology.zones[further.zone].direct_only
            if node not in copy.path and not is_barred:
                is_selected = copy.is_selected or further.path[-2:] in topology.conditions
                kept = _kept(topology, further.path)
                found[node] = replace(further, is_selected=is_selected, kept=kept)
                todo.append(found[node])
    return found


def origins(topology: Topology) -> Origins:
    """Return for every node the nodes whose messages must come to it, itself included."""
    found: Origins = {node: {node: ()} for node in topology.nodes}
    for source in topology.nodes:
        for node, copy in copies_from(topology, source).items():
            if not copy.is_selected:
                found[node][source] = copy.filters
    return found


def _kept(topology: Topology, path: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        control.filter
        for control in topology.interest
        if control.kind is ControlKind.LOCAL and control.node in path
    )


def _over_links(topology: Topology, copy: Copy) -> Iterator[Copy]:
    node, came_from = copy.path[-1], copy.path[-2:-1]
    for link in topology.links_of(node):
        kind, other = topology.zones[link.zone].kind.value, link.other(node)
        stays = kind in ONE_HOP_KINDS and link.zone == copy.zone
        returns = link.zone == copy.zone and (other,) == came_from
        if kind == "join" or stays or returns or (kind == "external" and copy.has_crossed):
            continue
        crossed = copy.has_crossed or kind == "external"
        yield Copy((*copy.path, other), link.zone, False, crossed, (), copy.filters)


def _over_joins(topology: Topology, copy: Copy) -> Iterator[Copy]:
    """Yield where joins lead: any row of them is at most one longer than each of them says."""
    node, came_from = copy.path[-1], copy.path[-2:-1]
    for link in topology.links_of(node):
        join = topology.joins.get((node, link.other(node)))
        if join is None or (copy.by_join and came_from == (join.target,)):
            continue
        limits = (*copy.limits, join.hops)
        if len(limits) - 1 > min(limits):
            continue
        path, filters = (*copy.path, join.target), (*copy.filters, join.filter)
        yield Copy(path, join.zone, True, copy.has_crossed, limits, filters)
