"""Directed recovery: after a heal, only what lies behind it is asked for a role.

A node that knew all instances of its own side lacks only those of the far side. The request goes
the way that the news of the heal came, crosses the healed link, and is a flood from there on;
answers come back the same way. Nodes on that way learn routes and certify nothing: what is hosted
among them never answers. Instances to which there are routes do not answer either: where two
colours met and nothing had been apart, their answers would come by detours and take the place of
good routes. Wherever it cannot go on it echoes that it has failed, and the recovery starts over as
a flood.
Spec: tree_layer 7.3 (H20).
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.model.trees import NO_MESSAGE, Address, MessageId
from mesh.trees.node import TreeState
from mesh.trees.routes import RoleRoutes

KNOWN_MAX = 1_000
"""Instances that a request names; who knows of more asks everybody."""


def heals_to_ask(node: TreeState, address: Address, role: RoleRoutes) -> Sequence[MessageId]:
    """Return the heals behind which alone a role may have instances that are unknown here.

    None of them if the whole mesh must be asked: the role was not certain, or the way to a heal or
    the colour that it left is no more, so that a link was lost since.
    """
    table = role.everywhere
    has_any = bool(table.routes) or bool(node.instances(address))
    may_ask = node.settings.directed_recovery and len(table.routes) <= KNOWN_MAX
    if not (may_ask and table.is_certified and has_any):
        return ()
    pending = node.heals[role.heals :]
    if all(node.is_up(towards) and heal.colour == node.colour for heal, towards in pending):
        return [heal.id for heal, _ in pending]
    return ()


def way_to(node: TreeState, heal: MessageId) -> tuple[str, MessageId] | None:
    """Return the link towards a heal, and what a request says behind it; None if there is none."""
    for known, towards in node.heals:
        if known.id == heal and node.is_up(towards):
            return towards, NO_MESSAGE if known.near == node.name else heal
    return None
