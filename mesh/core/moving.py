"""To which member a queue's messages move on, once they are in the queue of this one.

Exactly one member has a message at any time; it moves to where somebody consumes, never to where it
would only wait. Spec: DESIGN 6, EMS-12.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from mesh.core.queues import Nearness
from mesh.model.demands import QueueDemand
from mesh.model.frames import MessageClass
from mesh.model.names import NAME_PATTERN

WINDOW = 1_000
"""Maximum number of messages that a member gets ahead of what its consumers have read."""


MEMBER = "mover"
"""Suffix of a mover's client id: it distinguishes the mesh's members of a group from clients."""

_MOVER = re.compile(rf"(mesh-({NAME_PATTERN}-)?)?{MEMBER}")
"""Workers start theirs with `mesh` and the node's name; others may end theirs as they like."""


def is_client(client_id: str) -> bool:
    """Return whether a member of a queue's group is a client, and not the mesh's own mover."""
    return _MOVER.fullmatch(client_id) is None


def room_for(consumers: int, waiting: int) -> int:
    """Return how much a member may demand.

    Half of the window less what waits: what a mover has sent for the previous demand may still be
    under way, and that is at most as much.

    Args:
        consumers: Clients that consume its queue.
        waiting: Messages there that they have not read.
    """
    return max(0, WINDOW // 2 - waiting) if consumers else 0


class Part(StrEnum):
    """A node's role for a queue that messages may leave again."""

    ANY = "any"
    HOME = "home"
    PROXY = "proxy"


def target_of(
    part: Part, consumers: int, demands: Sequence[QueueDemand], home: str | None, near: Nearness
) -> str | None:
    """Return the member that gets what waits in the queue of this node, or None: it stays.

    Args:
        part: This node's role for the queue.
        consumers: Clients that consume it here.
        demands: What the other members demand.
        home: Where the queue has its home, as far as this node knows.
        near: The distances to other nodes.

    A home serves its proxies beside its own consumers: it shares messages with them as they do
    among themselves. A proxy whose consumers have left gives messages back. For `any`, messages
    leave only if nobody consumes here, to the nearest member where somebody does. Nothing moves
    over a direct-only link: a queue's messages are taken in order, and guaranteed ones could not
    go.
    """
    wanting = [one for one in demands if one.room > 0 and _is_open(near, one.node)]
    if part is Part.PROXY:
        return home if not consumers and home is not None and _is_open(near, home) else None
    if part is Part.HOME:
        near_by = [one for one in wanting if near.links_to(one.node) == 1]
        return max(near_by, key=lambda one: (one.room, one.node)).node if near_by else None
    if consumers or not wanting:
        return None
    return min(wanting, key=lambda one: (near.links_to(one.node), one.node)).node


def _is_open(near: Nearness, node: str) -> bool:
    return near.carries(node, MessageClass.GUARANTEED)
