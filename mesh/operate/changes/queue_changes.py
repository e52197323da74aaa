"""Existing queues whose messages would go to other members. Spec: DESIGN 6, K28."""

from __future__ import annotations

from collections.abc import Sequence

from mesh.model.control import EndpointKind
from mesh.model.names import fold
from mesh.model.queues import shared_by
from mesh.model.topology import Topology
from mesh.view.mesh_view import MeshView


def queues_shared_otherwise(view: MeshView, before: Topology, after: Topology) -> Sequence[str]:
    """Return the names of queues whose messages go to other members under another topology.

    Declarations of queues that nobody has do not decide anything yet.

    Args:
        view: Of the mesh, refreshed.
        before: The topology in force.
        after: The proposed one.
    """
    found = {
        fold(endpoint)
        for node, seen in view.nodes.items()
        for (endpoint, _), asked in seen.subscriptions.items()
        if asked.kind is EndpointKind.QUEUE
        and shared_by(before.queues, endpoint, asked.policy, before.unsaid_policy(node))
        != shared_by(after.queues, endpoint, asked.policy, after.unsaid_policy(node))
    }
    return sorted(found)
