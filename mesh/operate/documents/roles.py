"""`mesh role list` as a document: who wants which role of the tree layer. Spec: tree_layer 8."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mesh.errors import TransportError
from mesh.operate.questions import side_by_side
from mesh.view.mesh_view import RunningMesh
from mesh.view.role_requests import role_requests


def roles_document(mesh: RunningMesh, at_ms: int | None = None) -> dict[str, Any]:
    """Return all requests for roles, and the nodes that could not be queried.

    For a past moment (ms since 1970), return those known to have held then. `lease_holds` is
    null if the lease may have been renewed, and `colour` always: it is not recorded.
    """
    nodes = mesh.topology.nodes

    def rows(node: str) -> list[dict[str, Any]] | None:
        if nodes[node].kafka not in mesh.kafka or mesh.view.is_unreachable(node):
            return None
        try:
            return list(_rows(mesh, node, at_ms))
        except TransportError:
            return None

    found = dict(zip(nodes, side_by_side(rows, nodes), strict=True))
    return {
        "ok": True,
        "roles": [row for some in found.values() for row in some or ()],
        "unknown": [node for node, some in found.items() if some is None],
    }


def _rows(mesh: RunningMesh, node: str, at_ms: int | None) -> Iterator[dict[str, Any]]:
    requests = role_requests(mesh.home_of(node), mesh.topology.names.roles(node), at_ms)
    seen = mesh.view.nodes[node]
    colour = "" if seen.heartbeat is None else seen.heartbeat.colour
    # by the brokers' clock, which also timed the node's last report
    by_ms = seen.beat_ms if at_ms is None else at_ms
    for key, one in sorted(requests.items()):
        ends_ms = one.lease_ends_ms
        holds = ends_ms is not None and ends_ms >= by_ms
        yield {
            "tree": key.tree,
            "tree_id": one.request.address.tree,
            "role": key.role,
            "node": node,
            "app": key.app,
            "exclusive": one.request.is_exclusive,
            "extent": str(one.request.extent),
            "lease_holds": holds or (None if at_ms is not None else False),
            "since_ms": one.since_ms,
            "colour": colour if at_ms is None else None,
        }
