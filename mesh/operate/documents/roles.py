"""`mesh role list` as a document: who wants which role of the tree layer. Spec: tree_layer 8."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mesh.errors import TransportError
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.port import KafkaCluster
from mesh.view.mesh_view import MeshView
from mesh.view.role_wishes import role_wishes


def roles_document(
    topology: Topology, view: MeshView, kafka: Mapping[str, KafkaCluster]
) -> dict[str, Any]:
    """Return all wishes for roles, and the nodes that could not be asked."""
    found: list[dict[str, Any]] = []
    unknown: list[str] = []
    for node, declared in topology.nodes.items():
        cluster = kafka.get(declared.kafka)
        if cluster is None or declared.kafka in view.unreachable:
            unknown.append(node)
            continue
        try:
            found += _rows(topology, view, cluster, node)
        except TransportError:
            unknown.append(node)
    return {"ok": True, "roles": found, "unknown": unknown}


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
