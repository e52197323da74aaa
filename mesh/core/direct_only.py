"""Zones whose links carry only direct messages, by the topology alone: both ends know it.

Interest crosses such a link like any other, because it determines direct messages. Spec: DMR-11.
"""

from __future__ import annotations

from dataclasses import replace

from mesh.model.topology import Topology


def direct_only_zone_of(topology: Topology, node: str) -> str | None:
    """Return the direct-only cluster that a node is in, or None."""
    return next(
        (z.name for z in topology.zones.values() if z.direct_only and node in z.nodes), None
    )


def guaranteed_part(topology: Topology) -> Topology:
    """Return a topology without the links that guaranteed messages do not cross."""
    barred = {z.name: replace(z, links=()) for z in topology.zones.values() if z.direct_only}
    return replace(topology, zones={**topology.zones, **barred}) if barred else topology
