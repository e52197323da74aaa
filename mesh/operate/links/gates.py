"""Links that carry no data, as their ends report: refused in a loop, or probed. Spec: K27."""

from __future__ import annotations

from collections.abc import Sequence

from mesh.model.control import LinkStatus
from mesh.model.links import Gate
from mesh.view.mesh_view import MeshView
from mesh.view.node_view import NodeView

SHUT = (str(Gate.PROBING), str(Gate.REFUSED))
"""States of a link that is not part of the mesh just now."""

REMEDY = (
    "take one link of the loop out of the topology of both its ends, or give them one topology; "
    "the link comes up by itself then"
)


def shut_links(seen: NodeView) -> Sequence[LinkStatus]:
    """Return the links that a node says are refused or probed, with the reason in words."""
    return [link for link in seen.links if link.state in SHUT]


def is_shut(view: MeshView, node: str, neighbour: str) -> bool:
    """Return whether one of the two ends of a link says that it carries no data. Spec: K27."""
    return any(
        link.neighbour == other
        for one, other in ((node, neighbour), (neighbour, node))
        for link in shut_links(view.nodes[one])
    )
