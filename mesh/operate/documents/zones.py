"""`mesh zone list` and `show` as documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mesh.model.topology import Link, Topology, Zone, ZoneKind
from mesh.model.words import LinkWord
from mesh.operate.status import link_state
from mesh.view.mesh_view import RunningMesh


def zone_document(topology: Topology, zone: Zone) -> dict[str, Any]:
    """Return a zone.

    `active` is false without links. `clusters` lists the members through which a whole cluster is
    one member of this zone.
    """
    join = zone.join
    return {
        "zone": zone.name,
        "title": zone.title,
        "kind": str(zone.kind),
        "exclusive": zone.exclusive,
        "direct_only": zone.direct_only,
        "active": bool(zone.links),
        "nodes": list(zone.nodes),
        "links": [list(link.ends) for link in zone.links],
        "join": None
        if join is None
        else {"from": join.source, "to": join.target, "filter": join.filter, "hops": join.hops},
        "clusters": _clusters(topology, zone),
    }


def _clusters(topology: Topology, zone: Zone) -> Mapping[str, str]:
    if zone.kind in (ZoneKind.CLUSTER, ZoneKind.JOIN):
        return {}
    return {
        node: other.name
        for node in zone.nodes
        for other in topology.zones.values()
        if other.kind is ZoneKind.CLUSTER and node in other.nodes
    }


def ends_document(mesh: RunningMesh, link: Link) -> dict[str, Any]:
    """Return the states of a link, as each end that is up reports it in its heartbeat."""
    states = {
        node: link_state(mesh.view.nodes[node], link.other(node)) if is_up else LinkWord.UNKNOWN
        for node, is_up in ((node, mesh.beats[node]) for node in link.ends)
    }
    return {"link": list(link.ends), "states": states}
