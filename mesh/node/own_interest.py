"""A node's own interest, and what it derives from its clients' subscriptions.

Spec: UM-1, DMR-12, K22.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mesh.core.interest import JOINED, STATIC, Member
from mesh.core.local_links import LocalLink
from mesh.model.control import Interest, Subscription
from mesh.model.frames import MessageClass

OwnInterest = Mapping[tuple[str, Member], Interest]
"""(filter, member of this node) -> interest."""


def configured_interest(links: Sequence[LocalLink], static: Sequence[str]) -> OwnInterest:
    """Return what a node wants although no client requested it.

    Args:
        links: Its links: it wants what their joins select.
        static: Filters that the topology makes it want.
    """
    joined = [link.out.filter for link in links if link.out is not None]
    interest = Interest(static=True)
    return {(one, JOINED): interest for one in joined} | {(one, STATIC): interest for one in static}


def interest_changes(
    before: OwnInterest, after: OwnInterest
) -> Iterator[tuple[str, Member, Interest | None]]:
    """Yield the changes that turn one set of interest into the other."""
    for filter_, member in before:
        if (filter_, member) not in after:
            yield filter_, member, None
    for (filter_, member), interest in after.items():
        yield filter_, member, interest


def endpoint_interest(
    endpoint: str, subscription: Subscription | None
) -> Iterator[tuple[Member, Interest | None]]:
    """Yield how a subscription, or its end (None), changes an endpoint's interest in a filter.

    One that is not exported is a member of its own, so that only the exported one is offered.

    Spec: DMR-12.
    """
    for noexport in (False, True):
        member = Member("", endpoint, noexport=noexport)
        if subscription is None or subscription.noexport is not noexport:
            yield member, None
        else:
            durable = subscription.message_class is MessageClass.GUARANTEED
            yield member, Interest(durable=durable)
