"""Who was missed without a word while the mesh changed. Spec: tree_layer 10, statistical.

"No null, so everybody has answered" is exact while nothing changes. Under churn it is nearly so:
counted are sends that missed an instance which was connected to the sender all the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from mesh.model.tree_frames import ReplyKind
from mesh.model.trees import InstanceId

if TYPE_CHECKING:
    from tests.sim.trees.world import Call, World

Place = tuple[str, InstanceId]


class Seen(NamedTuple):
    """What there was at a moment: sessions of links that are up, and instances of a role."""

    links: Mapping[tuple[str, str], int]
    places: frozenset[Place]


def look(world: World, call: Call) -> Seen:
    """Return what there is for a call now."""
    links = {
        (name, peer): end.mine
        for name, node in world.nodes.items()
        for peer, end in node._node.links.items()
        if end.is_up
    }
    places = frozenset(
        (name, iid)
        for name, node in world.nodes.items()
        for iid in node._node.instances(call.address)
    )
    return Seen(links, places)


def missed(world: World, call: Call) -> bool | None:
    """Return whether a call that has just ended missed somebody without a null; None: no matter."""
    options = call.options
    if call.seen is None or options.one_instance or options.local_realm or options.one_way:
        return None
    now = look(world, call)
    ways = {way for way, session in call.seen.links.items() if now.links.get(way) == session}
    near, front = {call.node}, [call.node]
    while front:
        one = front.pop()
        for a, b in ways:
            if a == one and b not in near and (b, a) in ways:
                near.add(b)
                front.append(b)
    stable = {place for place in call.seen.places & now.places if place[0] in near}
    return not call.count(ReplyKind.NULL) and not stable <= set(call.delivered)
