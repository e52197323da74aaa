"""Zones as scripts and people read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType

from mesh.cli.render import grid

if TYPE_CHECKING:
    from mesh.model.topology import Link, Topology, Zone
    from mesh.view.mesh_view import MeshView


def zone_as_mapping(topology: Topology, zone: Zone) -> dict[str, Any]:
    """Return a zone as scripts read it.

    `active` is false without links. `clusters` has the members by which a whole cluster is one
    member of this zone.
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
    from mesh.model.topology import ZoneKind

    if zone.kind in (ZoneKind.CLUSTER, ZoneKind.JOIN):
        return {}
    return {
        node: other.name
        for node in zone.nodes
        for other in topology.zones.values()
        if other.kind is ZoneKind.CLUSTER and node in other.nodes
    }


def states_of(view: MeshView, beats: Mapping[str, bool], link: Link) -> dict[str, Any]:
    """Return the states of a link, as each end that is up tells it in its heartbeat."""
    from mesh.operate.status import link_state

    told = {
        node: link_state(view.nodes[node], link.other(node)) if beats[node] else "unknown"
        for node in link.ends
    }
    return {"link": list(link.ends), "states": told}


def list_table(zones: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return one line per zone."""
    names = ("ZONE", "TITLE", "KIND", "EXCLUSIVE", "ACTIVE", "MEMBERS", "LINKS")
    return grid(names, [_row(zone) for zone in zones])


def _row(zone: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        zone["zone"],
        zone["title"],
        f"{zone['kind']}, direct-only" if zone["direct_only"] else zone["kind"],
        "yes" if zone["exclusive"] else "",
        "yes" if zone["active"] else "no",
        _members(zone),
        len(zone["links"]),
    )


def _members(zone: Mapping[str, Any]) -> str:
    join = zone["join"]
    if join is not None:
        return f"{join['from']} to {join['to']}: {join['filter']}"
    clusters = zone["clusters"]
    return ", ".join(
        f"{node} (cluster {clusters[node]})" if node in clusters else node for node in zone["nodes"]
    )


def show_table(zone: Mapping[str, Any]) -> RenderableType:
    """Return a zone with its links."""
    rows = [
        ("-".join(one["link"]), *(f"{node}: {state}" for node, state in one["states"].items()))
        for one in zone["states"]
    ]
    parts: list[RenderableType] = [list_table([zone])]
    parts.append(grid(("LINK", "AS ONE END SEES IT", "AS THE OTHER DOES"), rows))
    return Group(*parts)
