"""Links that have not acknowledged a version yet, and those that need not. Spec: K24, K32."""

from __future__ import annotations

from collections.abc import Sequence

from mesh.model.words import LinkWord
from mesh.view.mesh_view import MeshView

UNHEARD = (LinkWord.DOWN, LinkWord.FROZEN, LinkWord.DISABLED)
"""Words of a node that hears nothing of the other end."""


def open_links(
    view: MeshView, node: str, version: int, topic_id: bytes | None = None
) -> tuple[Sequence[tuple[str, str]] | None, Sequence[tuple[str, str]]]:
    """Return (laggards or None when done, links whose end is down or unreachable).

    Args:
        view: What control topics say.
        node: The node whose subscriptions are meant.
        version: The offset to be acknowledged.
        topic_id: Id of the `clients` topic of that offset, if it is known.
    """
    seen = view.nodes[node]
    ack = seen.subscribed
    if ack is not None and topic_id is not None and ack.topic_id not in (None, topic_id):
        return (), ()  # it refers to an earlier topic
    if ack is None or ack.epoch != seen.epoch or ack.applied < version:
        return (), ()
    if ack.complete >= version:
        return None, ()
    late = [link for link in ack.open_links if not is_excused(view, *link)]
    excused = [link for link in ack.open_links if link not in late]
    return (late or None) if ack.open_links else (), excused


def is_excused(view: MeshView, node: str, neighbour: str) -> bool:
    """Return whether a node should not hear a neighbour, or reports it cannot. Spec: K24, K32."""
    # Perhaps only one end was notified; and the node may call a disabled link full.
    return view.is_to_be_disabled(node, neighbour) or is_unheard(view, node, neighbour)


def is_unheard(view: MeshView, node: str, neighbour: str) -> bool:
    """Return whether a node reports that it hears nothing from a neighbour. Spec: K24, K32."""
    seen = view.nodes.get(node)
    links = seen.links if seen is not None else ()
    return any(link.neighbour == neighbour and link.state in UNHEARD for link in links)
