"""`mesh role list` as a document: who wants which role of the tree layer. Spec: tree_layer 8."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mesh.errors import TransportError
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.operate.side_by_side import side_by_side
from mesh.transport.port import KafkaCluster
from mesh.view.mesh_view import MeshView
from mesh.view.role_wishes import role_wishes


def roles_document(
    topology: Topology, view: MeshView, kafka: Mapping[str, KafkaCluster]
) -> dict[str, Any]:
    """Return all wishes for roles, and the nodes that could not be asked."""

    def rows(node: str) -> list[dict[str, Any]] | None:
        name = topology.nodes[node].kafka
        if name not in kafka or name in view.unreachable:
            return None
        try:
            return list(_rows(topology, view, kafka[name], node))
        except TransportError:
            return None

    found = dict(zip(topology.nodes, side_by_side(rows, topology.nodes), strict=True))
    return {
        "ok": True,
        "roles": [row for some in found.values() for row in some or ()],
        "unknown": [node for node, some in found.items() if some is None],
    }


def _rows(
    topology: Topology, view: MeshView, cluster: KafkaCluster, node: str
) -> Iterator[dict[str, Any]]:
    wishes = role_wishes(cluster, TopicNames(topology.prefix).roles(node))
    seen = view.nodes[node]
    colour = "" if seen.heartbeat is None else seen.heartbeat.colour
    for key, one in sorted(wishes.items()):
        ends_ms = one.lease_ends_ms
        yield {
            "tree": key.tree,
            "tree_id": one.wish.address.tree,
            "role": key.role,
            "node": node,
            "app": key.app,
            "exclusive": one.wish.is_exclusive,
            "extent": str(one.wish.extent),
            # by the clock of the brokers, which also timed the node's last word
            "lease_holds": ends_ms is not None and ends_ms >= seen.beat_ms,
            "since_ms": one.since_ms,
            "colour": colour,
        }
