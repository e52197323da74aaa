"""What a node wants of itself, and what it makes of its clients' wishes.

Spec: UM-1, DMR-12, K22.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mesh.core.interest import JOINED, STATIC, Member
from mesh.core.routing import LocalLink
from mesh.model.control import Subscription, Wish
from mesh.model.frames import MessageClass

OwnWishes = Mapping[tuple[str, Member], Wish]
"""(filter, who of this node) -> wish."""


def standing_wishes(links: Sequence[LocalLink], static: Sequence[str]) -> OwnWishes:
    """Return what a node wants although no client asked for it.

    Args:
        links: Its links: what a join of it selects, it wants.
        static: Filters that the topology has it want.
    """
    joined = [link.out.filter for link in links if link.out is not None]
    wish = Wish(static=True)
    return {(one, JOINED): wish for one in joined} | {(one, STATIC): wish for one in static}


def standing_changes(
    before: OwnWishes, after: OwnWishes
) -> Iterator[tuple[str, Member, Wish | None]]:
    """Yield what makes the one of the other."""
    for filter_, member in before:
        if (filter_, member) not in after:
            yield filter_, member, None
    for (filter_, member), wish in after.items():
        yield filter_, member, wish


def endpoint_wishes(
    endpoint: str, subscription: Subscription | None
) -> Iterator[tuple[Member, Wish | None]]:
    """Yield what a subscription, or with None its end, makes of an endpoint's wish for a filter.

    One that is not exported is another member, so that only the other one is offered.

    Spec: DMR-12.
    """
    for noexport in (False, True):
        member = Member("", endpoint, noexport=noexport)
        if subscription is None or subscription.noexport is not noexport:
            yield member, None
        else:
            durable = subscription.message_class is MessageClass.GUARANTEED
            yield member, Wish(durable=durable)
