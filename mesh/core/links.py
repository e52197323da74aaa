"""What makes a link what it is: its ends take one that is made of anything else for another one."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from mesh.core.joins import rows_back
from mesh.model.control import Lineage
from mesh.model.topology import Link, Topology

Ends = tuple[str, str]
"""The nodes that a link connects, as the topology sorts them."""


def made_of(topology: Topology, link: Link) -> object:
    """Return zone, kind and joins of a link, both ways, to be compared.

    Which rows of joins lead back over it is part of that: addresses come by them. Spec: K28, K22.
    """
    one, other = link.ends
    joins = [topology.joins.get(ends) for ends in ((one, other), (other, one))]
    back = [() if join is None else tuple(rows_back(topology.joins, join)) for join in joins]
    return link.zone, topology.kind_of(link), *joins, *back


def first_lineage(topology: Topology) -> Lineage:
    """Return the lineage of a topology that no change has brought. Spec: K10."""
    return Lineage(bytes.fromhex(topology_digest(topology)))


def lineage_after(lineage: Lineage, before: Topology, after: Topology, number: int) -> Lineage:
    """Return the lineage of the topology that a change brings.

    Args:
        lineage: Of the topology in force.
        before: That topology.
        after: The target.
        number: Of the target: links that are not what they were get it.
    """
    former = links_made(before)
    numbers = {
        ends: lineage.number_of(*ends) if former.get(ends) == made else number
        for ends, made in links_made(after).items()
    }
    links = sorted((*ends, made_by) for ends, made_by in numbers.items() if made_by > 0)
    return Lineage(lineage.domain, tuple(links))


def topology_digest(topology: Topology) -> str:
    """Return what tells whether two topologies have the same links; addresses do not count."""
    facts = [
        (zone.name, str(zone.kind), [link.ends for link in zone.links], repr(zone.join))
        for zone in sorted(topology.zones.values(), key=lambda one: one.name)
        if zone.links
    ]
    return blake2b(repr(facts).encode(), digest_size=8).hexdigest()


def links_made(topology: Topology) -> Mapping[Ends, object]:
    """Return what every link is made of, by its ends."""
    return {link.ends: made_of(topology, link) for link in topology.links}
