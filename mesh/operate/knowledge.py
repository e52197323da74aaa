"""What the control topics show, in the form in which the core explains it."""

from __future__ import annotations

from collections.abc import Mapping

from mesh.node.explanation import KnownNode
from mesh.view.mesh_view import MeshView
from mesh.view.node_view import NodeView


def known_nodes(view: MeshView, beats: Mapping[str, bool]) -> Mapping[str, KnownNode]:
    """Return what is known of every node.

    Args:
        view: Refreshed.
        beats: Which nodes are up.
    """
    return {node: _known(seen, is_up=beats[node]) for node, seen in view.nodes.items()}


def _known(seen: NodeView, *, is_up: bool) -> KnownNode:
    links = seen.heartbeat.links if seen.heartbeat is not None else ()
    return KnownNode(
        uuid=seen.identity.uuid if seen.identity is not None else "",
        subscriptions=seen.subscriptions,
        offers=seen.offers,
        marks=seen.marks,
        disabled=list(seen.disabled),
        down=[link.neighbour for link in links if link.state == "down"],
        is_up=is_up and seen.is_ready,
    )
