"""Which nodes an exclusive zone cannot have, because they are in another zone besides.

A cluster is one member of an exclusive zone, by one of its nodes: see ADR 28. That no second node
of it is in the zone, so that one copy enters the cluster, follows from the walks and is judged
there. Spec: DESIGN 3, UM-8, UM-9.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mesh.config.located import KeyPath
from mesh.model.topology import ZoneKind

Members = Mapping[str, Mapping[str, KeyPath]]
"""Zone -> its nodes, each with the place where it stands; joins are left out."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A node that is in a zone too many: what to tell, and the place of it there."""

    message: str
    path: KeyPath


def exclusive_faults(zones: Mapping[str, object], members: Members) -> Iterator[Fault]:
    """Yield one fault per node, or cluster as a whole, and pair of zones.

    Args:
        zones: What stands under `zones`.
        members: Of all zones but joins.
    """
    clusters = [name for name in members if _says(zones[name], "kind") == ZoneKind.CLUSTER]
    exclusive = [name for name in members if _says(zones[name], "exclusive") is True]
    reported: dict[tuple[str, frozenset[str]], None] = {}
    for zone in exclusive:
        for node in members[zone]:
            cluster = _cluster_beside(node, zone, clusters, exclusive, members)
            for fellow in dict.fromkeys([node, *members.get(cluster, ())]):
                for other in members:
                    pair = (cluster or node, frozenset((zone, other)))
                    if other in (zone, cluster) or fellow not in members[other] or pair in reported:
                        continue
                    reported[pair] = None
                    yield Fault(_text(fellow, node, other, zone, cluster), members[other][fellow])


def _says(zone: object, key: str) -> object:
    return zone.get(key) if isinstance(zone, Mapping) else None


def _cluster_beside(
    node: str, zone: str, clusters: list[str], exclusive: list[str], members: Members
) -> str:
    """Return the cluster that is a member of an exclusive zone by this node, or nothing.

    A cluster zone that is exclusive itself is in no other zone, so it is a member of none.
    """
    if zone in clusters:
        return ""
    return next((one for one in clusters if node in members[one] and one not in exclusive), "")


def _text(fellow: str, node: str, other: str, zone: str, cluster: str) -> str:
    if fellow == node:
        return (
            f"node {node} is in zone {other} and in zone {zone}, which is exclusive: "
            "remove it from one"
        )
    return (
        f"node {fellow} is in zone {other}, and its cluster {cluster} is by {node} a member of "
        f"zone {zone}, which is exclusive: remove it from one"
    )
