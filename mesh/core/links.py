"""What makes a link what it is: its ends take one that is made of anything else for another one."""

from __future__ import annotations

from collections.abc import Mapping

from mesh.core.joins import rows_back
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


def links_made(topology: Topology) -> Mapping[Ends, object]:
    """Return what every link is made of, by its ends."""
    return {link.ends: made_of(topology, link) for link in topology.links}
