"""Endpoints without a topic although their node has read who subscribes. Spec: UM-10, K20."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mesh.errors import TransportError
from mesh.model.control import EndpointStatus
from mesh.model.words import EndpointWord
from mesh.operate.interest.propagation import is_subscribed
from mesh.operate.questions import side_by_side
from mesh.operate.status import NodeStatus
from mesh.view.mesh_view import RunningMesh


def missing_endpoints(mesh: RunningMesh) -> Mapping[str, Sequence[EndpointStatus]]:
    """Return per node its endpoints whose topic somebody deleted.

    What cannot be queried now is left out: silent Kafka clusters are reported elsewhere.
    """
    names, view = mesh.topology.names, mesh.view
    topics: dict[str, dict[str, tuple[str, str]]] = {name: {} for name in mesh.kafka}
    for node, declared in mesh.topology.nodes.items():
        if view.is_unreachable(node) or not is_subscribed(view, node):
            continue
        for endpoint, _ in view.nodes[node].subscriptions:
            if declared.kafka in topics:
                topics[declared.kafka][names.endpoint(node, endpoint)] = node, endpoint

    def known(name: str) -> Mapping[str, object]:
        try:
            return mesh.kafka[name].admin().describe(list(topics[name]))
        except TransportError:
            return topics[name]

    asked = [name for name, some in topics.items() if some]
    found: dict[str, list[EndpointStatus]] = {}
    for name, there in zip(asked, side_by_side(known, asked), strict=True):
        for topic, (node, endpoint) in topics[name].items():
            if topic not in there:
                text = f"{topic} does not exist; what was in it is lost"
                found.setdefault(node, []).append(
                    EndpointStatus(endpoint, EndpointWord.MISSING, text)
                )
    return found


def with_missing(
    nodes: Sequence[NodeStatus], missing: Mapping[str, Sequence[EndpointStatus]]
) -> Sequence[NodeStatus]:
    """Return the given nodes, with their endpoints that have no topic added."""
    return [
        replace(one, endpoints_full=(*one.endpoints_full, *missing.get(one.node, ())))
        for one in nodes
    ]
