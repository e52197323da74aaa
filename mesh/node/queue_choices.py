"""Why a member of a queue gets a message, in words. Spec: DESIGN 6."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mesh.core.queues import Nearness, choose
from mesh.core.routing import Router
from mesh.model.frames import MessageClass
from mesh.model.names import fold
from mesh.model.queues import Attraction, MemberKind


def queue_choices(router: Router, subject: str, message_class: MessageClass) -> Iterator[str]:
    """Yield one line per queue that a message published at a router's node is for.

    Args:
        router: Of the node where it is published.
        subject: Of the message, as the client wrote it.
        message_class: Of the message: some links carry direct messages only.
    """
    near = router.near
    if near is None:
        return
    found = router.table.attractions.matching(subject)
    chosen = choose(found, near, subject, message_class)
    shared = [one for one in found if one.kind in (MemberKind.ANY, MemberKind.HOME)]
    for queue in chosen.homeless:
        if fold(queue) not in {one.name for one in shared}:
            yield f"queue {queue}: nobody, since its home is not linked to {near.node}"
    for name in dict.fromkeys(one.name for one in found):
        members = [one for one in found if one.name == name]
        if any(one.kind is MemberKind.LOCAL and one.node == near.node for one in members):
            yield f"queue {members[0].queue}: {near.node}, for it is local"
        several = sorted(
            (one for one in members if one in shared),
            key=lambda one: (near.links_to(one.node), one.node),
        )
        reached = [one for one in several if near.is_open(one.node, subject, message_class)]
        if reached:
            yield f"queue {reached[0].queue}: {reached[0].node}, {_why(reached, near)}"
        elif any(near.carries(one.node, message_class) for one in several):
            yield (
                f"queue {several[0].queue}: nobody, since {subject} is kept local on the way to "
                f"{', '.join(dict.fromkeys(one.node for one in several))}"
            )
        elif several:
            yield f"queue {several[0].queue}: nobody, for only direct messages come to its members"


def _why(several: Sequence[Attraction], near: Nearness) -> str:
    best = several[0]
    if best.kind is MemberKind.HOME:
        return "its home"
    distance = near.links_to(best.node)
    links = f"{distance} link{'' if distance == 1 else 's'} away"
    others = [one for one in several[1:] if one.node != best.node]
    if not others:
        return f"its only member, {links}"
    if near.links_to(others[0].node) == distance:
        return f"{links} as {others[0].node}, and first by name"
    return f"the nearest, {links}; {others[0].node} is {near.links_to(others[0].node)}"
