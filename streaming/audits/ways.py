"""What stands between two nodes: joins, local subjects, selectors, direct-only zones.

What meets a selector may come, or may not: what conditions say is not judged here a second time.

Found from the reader back to every origin, apart from the mesh's own walks. Spec: DESIGN 3, K31.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from mesh.model.topology import Topology

ONE_HOP_KINDS = ("cluster", "one-hop")
"""Kinds of zones in which what arrived on one of their links does not go on. Spec: DESIGN 3."""


@dataclass(frozen=True, slots=True)
class Between:
    """What stands between the node of an ingress and a reader.

    Attributes:
        joins: Filters of the joins on the way, in order: what they do not select does not come.
        kept: Filters of what nodes on the way keep local: what they select does not come. EMS-11.
        ends_with_join: Whether the reader gets it over a join.
        is_sure: Whether no selector stands on the way, which may refuse a message. EMS-14.
        is_direct_only: Whether a link on the way is in a direct-only zone: guaranteed messages do
            not come. DMR-11.
    """

    joins: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    ends_with_join: bool = False
    is_sure: bool = True
    is_direct_only: bool = False


NOTHING = Between()


@dataclass(frozen=True, slots=True)
class _Trail:
    """How far back a message is followed from its reader.

    Attributes:
        nodes: From the reader to where it was before.
        zone: Zone of the last link, empty at the reader.
        is_abroad: Whether an external link is among them.
        limits: `hops` of the joins at the far end, in a row.
        between: What stands on the way so far.
    """

    nodes: tuple[str, ...]
    zone: str = ""
    is_abroad: bool = False
    limits: tuple[int, ...] = ()
    between: Between = NOTHING


@dataclass(slots=True)
class Ways:
    """What stands between the nodes of a topology, found for each reader when it is asked for.

    Attributes:
        topology: The topology.
        found: Reader -> origin -> what stands between them.
    """

    topology: Topology
    found: dict[str, Mapping[str, Between]] = field(default_factory=dict)

    def between(self, origin: str, reader: str) -> Between | None:
        """Return what stands between two nodes; None if no walk joins them."""
        if reader not in self.found:
            is_known = reader in self.topology.nodes
            self.found[reader] = origins_of(self.topology, reader) if is_known else {}
        return self.found[reader].get(origin)


def origins_of(topology: Topology, reader: str) -> Mapping[str, Between]:
    """Return from where messages can come to a node, and what stands on the way."""
    local: dict[str, list[str]] = {}
    for control in topology.interest:
        if control.kind.value == "local":
            local.setdefault(control.node, []).append(control.filter)
    found: dict[str, Between] = {}
    trails = [_Trail((reader,))]
    for trail in trails:
        if len(trail.nodes) > 1:
            kept = tuple(one for node in trail.nodes for one in local.get(node, ()))
            found.setdefault(trail.nodes[-1], replace(trail.between, kept=kept))
        trails += [one for one in _before(topology, trail) if one.nodes[-1] not in trail.nodes]
    return {reader: NOTHING, **found}


def _before(topology: Topology, trail: _Trail) -> Iterator[_Trail]:
    """Yield where a message can have been one link earlier."""
    here, next_ = trail.nodes[-1], trail.nodes[-2:-1]
    for link in topology.links_of(here):
        other, kind = link.other(here), topology.kind_of(link).value
        nodes = (*trail.nodes, other)
        between = trail.between
        if (other, here) in topology.conditions:
            between = replace(between, is_sure=False)
        if topology.zones[link.zone].direct_only:
            between = replace(between, is_direct_only=True)
        turns = link.zone == trail.zone and (other,) == next_
        if kind == "join":
            join = topology.joins.get((other, here))
            limits = () if join is None else (join.hops, *trail.limits)
            if join is None or turns or len(limits) > 1 + min(limits):
                continue
            joins = (join.filter, *between.joins)
            is_end = between.ends_with_join or not next_
            between = replace(between, joins=joins, ends_with_join=is_end)
            yield _Trail(nodes, link.zone, trail.is_abroad, limits, between)
            continue
        is_external = kind == "external"
        is_second = kind in ONE_HOP_KINDS and link.zone == trail.zone
        if not (turns or is_second or (is_external and trail.is_abroad)):
            yield _Trail(nodes, link.zone, trail.is_abroad or is_external, (), between)
