"""What the control topics show, in the form in which the core explains it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mesh.core.digest import MODULUS, entry_digest
from mesh.model.control import Interest, Mark, Scope
from mesh.model.words import LinkWord, NodeWord
from mesh.node.explanation import KnownNode
from mesh.operate.interest.history import HeldSubscription, InterestAt
from mesh.view.mesh_view import RunningMesh
from mesh.view.node_view import NodeView


def known_nodes(mesh: RunningMesh) -> Mapping[str, KnownNode]:
    """Return what is known of every node."""
    return {
        node: _known(mesh.view.nodes[node], is_up=mesh.beats[node]) for node in mesh.topology.nodes
    }


def _known(seen: NodeView, *, is_up: bool) -> KnownNode:
    return KnownNode(
        uuid=seen.uuid,
        subscriptions=seen.subscriptions,
        offers=seen.offers,
        marks=seen.marks,
        disabled=list(seen.disabled),
        down=[link.neighbour for link in seen.links if link.state == LinkWord.DOWN],
        is_up=is_up and seen.is_ready,
    )


def known_then(
    mesh: RunningMesh,
    pasts: Mapping[str, InterestAt],
    ended: Mapping[str, Sequence[HeldSubscription]],
    state_of: Callable[[str], str | None],
) -> Mapping[str, KnownNode]:
    """Return what was known of every node at a moment, if the topology was the present one.

    Args:
        mesh: The mesh: who nodes are.
        pasts: What they wanted then; nothing is known of those left out.
        ended: What their own topics have forgotten of that, as the auditor wrote it.
        state_of: Returns the state of a node, or of a link from node to node; None if it is not on
            record: then it is assumed to be up.
    """
    found: dict[str, KnownNode] = {}
    for node in mesh.topology.nodes:
        seen, past = mesh.view.nodes[node], pasts.get(node)
        if past is None:
            found[node] = KnownNode()
            continue
        offers: dict[Scope, dict[str, Interest]] = {scope: {} for scope in seen.marks}
        for one in past.offers:
            if one.interest is not None:
                offers.setdefault(one.scope, {})[one.filter] = one.interest
        states = {one: state_of(f"{one}->{node}") for one in mesh.topology.neighbours(node)}
        held = (*past.subscriptions, *ended.get(node, ()))
        found[node] = KnownNode(
            uuid=seen.uuid,
            subscriptions={(one.endpoint, one.filter): one.subscription for one in held},
            offers=offers,
            marks={scope: _mark(entries) for scope, entries in offers.items()},
            disabled=[one for one, state in states.items() if state == LinkWord.DISABLED],
            down=[one for one, state in states.items() if state == LinkWord.DOWN],
            is_up=state_of(node) in (NodeWord.UP, None),
        )
    return found


def _mark(entries: Mapping[str, Interest]) -> Mark:
    """Return the mark of what is known to have been a whole scope."""
    digest = sum(entry_digest(filter_, one) for filter_, one in entries.items()) % MODULUS
    return Mark(1, 1, len(entries), digest)
