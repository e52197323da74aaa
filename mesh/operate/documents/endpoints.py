"""`mesh endpoint list` as a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mesh.errors import TransportError
from mesh.operate.endpoints.listing import EndpointStanding, endpoints_of
from mesh.operate.endpoints.unsubscribed import Unsubscribed, unsubscribed_of
from mesh.operate.questions import side_by_side
from mesh.view.mesh_view import RunningMesh


def endpoints_document(mesh: RunningMesh, nodes: Sequence[str]) -> dict[str, Any]:
    """Return the endpoints of these nodes, and of which of them nothing is known."""
    reachable = [node for node in nodes if not mesh.view.is_unreachable(node)]
    listed = side_by_side(lambda node: endpoints_of(mesh, node), reachable)
    left = side_by_side(lambda node: _left_over(mesh, node), reachable)
    return {
        "ok": True,
        "endpoints": [_endpoint(one) for of in listed for one in of],
        "unsubscribed": [unsubscribed_document(one) for of in left for one in of],
        "unknown": [node for node in nodes if node not in reachable],
    }


def _endpoint(one: EndpointStanding) -> dict[str, Any]:
    return {
        "node": one.node,
        "endpoint": one.endpoint,
        "kind": str(one.kind),
        "class": str(one.message_class),
        "filters": list(one.filters),
        "readers": one.readers,
        "slowest": one.slowest or None,
        "waiting": None if one.waiting is None else one.waiting.count,
        "is_counted": one.waiting is None or one.waiting.is_counted,
    }


def unsubscribed_document(one: Unsubscribed) -> dict[str, Any]:
    """Return an endpoint that nobody subscribes to, as scripts read it."""
    return {
        "node": one.node,
        "endpoint": one.endpoint,
        "topics": list(one.topics),
        "readers": list(one.readers),
        "present": list(one.present),
        "unread": None if one.unread is None else one.unread.count,
        "is_counted": one.unread is None or one.unread.is_counted,
        "doubt": one.doubt or None,
    }


def _left_over(mesh: RunningMesh, node: str) -> Sequence[Unsubscribed]:
    try:
        return unsubscribed_of(mesh, node)
    except TransportError:
        return ()  # its Kafka cluster has gone silent since it was looked at
