"""Zones whose links carry direct messages alone, by the topology alone: both ends know it.

Interest crosses such a link as any other, because direct messages are sent by it. Spec: DMR-11.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from mesh.core.reach import SourceReach, compare_reach
from mesh.model.topology import Link, Topology


def direct_only_zone_of(topology: Topology, node: str) -> str | None:
    """Return the direct-only cluster that a node is in, or None."""
    return next(
        (z.name for z in topology.zones.values() if z.direct_only and node in z.nodes), None
    )


def direct_only_zone_on(topology: Topology, nodes: Sequence[str]) -> str | None:
    """Return the first direct-only zone on a walk, or None if guaranteed messages pass it all.

    Args:
        topology: A legal one: two nodes have one link at most.
        nodes: Those of the walk in order, both ends included.
    """
    zones = [zone for zone in topology.zones.values() if zone.direct_only]
    for here, there in pairwise(nodes) if zones else ():
        for zone in zones:
            if Link.between(zone.name, here, there) in zone.links:
                return zone.name
    return None


def guaranteed_part(topology: Topology) -> Topology:
    """Return a topology without the links that guaranteed messages do not cross."""
    barred = {z.name: replace(z, links=()) for z in topology.zones.values() if z.direct_only}
    return replace(topology, zones={**topology.zones, **barred}) if barred else topology


def compare_guaranteed(before: Topology, after: Topology) -> Sequence[SourceReach]:
    """Return the sources whose guaranteed messages alone reach other nodes than before.

    Nothing where neither topology has a direct-only zone: then both classes reach the same.
    """
    parts = guaranteed_part(before), guaranteed_part(after)
    if parts == (before, after):
        return ()
    return compare_reach(*parts).sources
