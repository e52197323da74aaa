"""What nodes know of the ways to roles as a document, read from topics alone. Spec: tree_layer 8.

`mesh role route` asks the nodes, as an application; this is what they have reported by themselves,
up to a few seconds ago.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mesh.errors import TransportError
from mesh.model.tree_apps import KnownRoute
from mesh.operate.questions import side_by_side
from mesh.view.mesh_view import RunningMesh
from mesh.view.role_routes import StandingRoutes, role_routes

Row = dict[str, Any]


def role_routes_document(mesh: RunningMesh) -> dict[str, Any]:
    """Return every route to a role at every node, and the nodes whose routes are unknown.

    A node's routes are unknown if its Kafka cluster does not answer, it does not beat, or it
    reports no routes: it is of an earlier release, or has no tree layer. `link` is empty for a
    local instance; `to` is the node where the links from node to node end, null if unknown.
    """
    nodes, names = mesh.topology.nodes, mesh.topology.names
    told: dict[str, Sequence[StandingRoutes]] = {}

    def read(name: str) -> Mapping[str, Sequence[StandingRoutes]]:
        here = [node for node, one in nodes.items() if one.kafka == name and mesh.beats[node]]
        if name not in mesh.kafka or name in mesh.view.unreachable or not here:
            return {}
        try:
            found = role_routes(mesh.kafka[name], [names.routes(node) for node in here])
        except TransportError:
            return {}
        return {node: found[names.routes(node)] for node in here if names.routes(node) in found}

    for found in side_by_side(read, mesh.topology.kafka):
        told |= found
    rows: list[Row] = []
    unknown: list[str] = []
    for node in nodes:
        beat = mesh.view.nodes[node].heartbeat
        if node not in told or beat is None or beat.trees is None:
            unknown.append(node)
            continue
        for one in told[node]:
            if one.epoch == beat.epoch:  # else a former incarnation's, unknown to this one
                rows += _rows(node, one)
    _add_ends(rows)
    return {"ok": True, "routes": rows, "unknown": unknown}


def _rows(node: str, standing: StandingRoutes) -> Iterator[Row]:
    told = standing.told
    about: Row = {
        "tree_id": told.address.tree,
        "role": told.address.role,
        "node": node,
        "certain": told.is_certain,
        "has_more": told.has_more,
    }
    for one in told.routes:
        # By the brokers' clock; a local instance has no age.
        since_ms = standing.told_ms - one.age_ms if one.link else None
        yield {**about, **route_row(one), "since_ms": since_ms}


def route_row(one: KnownRoute) -> Row:
    """Return a route as every document about routes has it, its age apart."""
    return {
        "instance": f"{one.iid:x}",
        "link": one.link,
        "scope": str(one.scope),
        "hops": one.hops,
        "reason": str(one.reason),
    }


def _add_ends(rows: Sequence[Row]) -> None:
    """Add to each route the node where it ends, going from node to node."""

    def key(row: Row, node: str) -> tuple[object, ...]:
        return (row["tree_id"], row["role"], row["instance"], row["scope"], node)

    following = {key(row, row["node"]): row["link"] for row in rows if row["link"]}
    here = {
        (row["tree_id"], row["role"], row["instance"], row["node"])
        for row in rows
        if row["link"] == ""
    }
    for row in rows:
        node, passed = row["node"], {row["node"]}
        while (next_node := following.get(key(row, node))) and next_node not in passed:
            passed.add(next_node)
            node = next_node
        ends = (row["tree_id"], row["role"], row["instance"], node) in here
        row["to"] = node if ends else None
