"""Which change made each link: one made of anything else than before is another link. K10, K28."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from mesh.core.joins import rows_back
from mesh.model.control import Lineage, LinkNumbers
from mesh.model.topology import Link, Topology

Ends = tuple[str, str]
"""The nodes that a link connects, as the topology sorts them."""


def made_of(topology: Topology, link: Link) -> object:
    """Return zone, kind and joins of a link, both ways, for comparison.

    This includes the rows of joins that lead back over it: addresses come by them. Spec: K28, K22.
    """
    one, other = link.ends
    joins = [topology.joins.get(ends) for ends in ((one, other), (other, one))]
    back = [() if join is None else tuple(rows_back(topology.joins, join)) for join in joins]
    return link.zone, topology.kind_of(link), *joins, *back


def first_lineage(topology: Topology) -> Lineage:
    """Return the lineage of a topology that no change has brought. Spec: K10."""
    return Lineage(bytes.fromhex(topology_digest(topology)))


def lineage_after(
    lineage: Lineage, before: Topology, in_force: int, after: Topology, number: int
) -> Lineage:
    """Return the lineage of the topology that a change brings.

    Args:
        lineage: Of the topology in force.
        before: That topology.
        in_force: Its number.
        after: The target.
        number: Of the target: links that are not what they were get it.
    """
    former = links_made(before)
    if in_force == 1 and first_lineage(before).domain == lineage.domain:
        in_force = 0  # the record of a mesh that worked by its file, which says the same
    links = [
        lineage.of(*ends) if former.get(ends) == made else LinkNumbers(*ends, number, in_force)
        for ends, made in links_made(after).items()
    ]
    return Lineage(lineage.domain, tuple(sorted(one for one in links if one.number > 0)))


def topology_digest(topology: Topology) -> str:
    """Return what is equal if two topologies have the same links; addresses do not count."""
    facts = [
        (zone.name, str(zone.kind), [link.ends for link in zone.links], repr(zone.join))
        for zone in sorted(topology.zones.values(), key=lambda one: one.name)
        if zone.links
    ]
    return blake2b(repr(facts).encode(), digest_size=8).hexdigest()


def links_made(topology: Topology) -> Mapping[Ends, object]:
    """Return what every link is made of, by its ends."""
    return {link.ends: made_of(topology, link) for link in topology.links}
