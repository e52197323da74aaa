"""Whether every subscription is known everywhere, else which nodes lag. Spec: K24, lab.md 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from mesh.model.control import Scope
from mesh.model.topology import Link, Topology
from mesh.view.mesh_view import MeshView

IsExcused = Callable[[str, str], bool]
"""(from, to) -> whether this link need not be waited for: cut, disabled, or its end stopped."""


def is_subscribed(view: MeshView, node: str) -> bool:
    """Return whether all that a node's clients wrote is in force, so endpoints have topics."""
    seen = view.nodes[node]
    ack = seen.subscribed
    return ack is not None and ack.epoch == seen.epoch and ack.applied >= seen.clients_offset


def laggards(
    topology: Topology,
    view: MeshView,
    wanted: Mapping[str, int],
    epochs: Mapping[str, int],
    is_excused: IsExcused,
) -> Iterator[str]:
    """Yield, in words, everything that is not settled yet.

    Args:
        topology: The mesh.
        view: Refreshed after `wanted` was found.
        wanted: Running node -> `clients` offset that must be known.
        epochs: Running node -> lowest epoch of its present run.
        is_excused: Links that need not be waited for.
    """
    for node, offset in wanted.items():
        seen = view.nodes[node]
        if seen.epoch < epochs.get(node, 0) or not seen.is_ready:
            yield f"{node} is not ready"
            continue
        for link in topology.links_of(node):
            reader = link.other(node)
            if not is_excused(node, reader):
                for scope in unapplied(view, link, writer=node):
                    yield f"{reader} has not applied {node}'s interest in {scope}"
        ack = seen.subscribed
        if offset < 0:
            continue
        if ack is None or ack.epoch != seen.epoch or ack.applied < offset:
            yield f"{node} has not applied its subscriptions up to {offset}"
        elif ack.complete < offset:
            still = [link for link in ack.open_links if not is_excused(*link)]
            if still or not ack.open_links:
                links = ", ".join(f"{source}->{target}" for source, target in still)
                yield f"subscriptions of {node} are not acknowledged over {links or 'its links'}"


def unapplied(view: MeshView, link: Link, *, writer: str) -> Iterator[Scope]:
    """Yield the scopes of one end of a link whose newest mark the other end has not applied."""
    reader = link.other(writer)
    for scope, mark in sorted(view.nodes[writer].marks.items()):
        if scope.zone != link.zone or scope.neighbour not in ("", reader):
            continue
        ack = view.nodes[reader].acks.get((writer, scope))
        if ack is None or (ack.epoch, ack.applied) < (mark.epoch, mark.number):
            yield scope
