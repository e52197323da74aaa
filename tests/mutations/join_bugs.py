"""Bugs of joins: what leaves on them, what is wanted because of them, and what comes back."""

from __future__ import annotations

from dataclasses import replace

from mesh.core import routing
from mesh.core.interest import JOINED
from mesh.core.routing import Router
from mesh.lane.messages import outgoing, transit
from mesh.model.joins import JoinRow
from mesh.model.reasons import Reason
from mesh.model.topology import ZoneKind
from mesh.node import offers
from mesh.node.pending_interest import PendingInterest
from tests.mutations.patching import Mutation, Patches


def filter_ignored(patches: Patches) -> None:
    def wrapper(decide):
        def wrong(one, link, causes, *message):
            return decide(one, link, (None, None) if link.out is not None else causes, *message)

        return wrong

    patches.wrap(Router, "_reason", wrapper)


def _goes_round(patches: Patches) -> None:
    """Take out the second defence too: nothing goes back to a node that it has been at."""
    for module in (outgoing, transit):
        patches.put(module, "goes_back", lambda *_: False)


def row_endless(patches: Patches) -> None:
    def wrapper(may_join):
        def wrong(*message):
            found = may_join(*message)
            return None if found is Reason.JOIN_HOPS else found

        return wrong

    patches.wrap(routing, "may_join", wrapper)
    _goes_round(patches)


def returns(patches: Patches) -> None:
    def wrapper(may_leave):
        def wrong(kind, **came):
            return None if kind is ZoneKind.JOIN else may_leave(kind, **came)

        return wrong

    patches.wrap(routing, "may_leave", wrapper)
    _goes_round(patches)


def joins_not_counted(patches: Patches) -> None:
    def wrapper(hop_over):
        def wrong(lane, link, came, chain):
            return replace(hop_over(lane, link, came, chain), join_hops=0)

        return wrong

    patches.wrap(outgoing, "hop_over", wrapper)


def source_wants_nothing(patches: Patches) -> None:
    def wrapper(put):
        def wrong(one, filter_, member, wish):
            if member != JOINED:
                put(one, filter_, member, wish)

        return wrong

    patches.wrap(PendingInterest, "put", wrapper)


def interest_comes_back(patches: Patches) -> None:
    patches.put(offers, "is_address", lambda filter_: True)


def addresses_stay(patches: Patches) -> None:
    patches.put(offers, "is_address", lambda filter_: False)


def addresses_come_back_too_far(patches: Patches) -> None:
    def wrapper(row_over):
        def wrong(row, hops):
            return row_over(JoinRow(0, row.hops_max), hops)

        return wrong

    patches.wrap(offers, "row_over", wrapper)


JOIN_BUGS = (
    Mutation("join-filter-ignored", "a join carries what it does not select", filter_ignored),
    Mutation("join-row-endless", "a row of joins is longer than its limits", row_endless),
    Mutation("join-returns", "what came over a join goes back over the other", returns),
    Mutation("join-not-counted", "the header does not count joins", joins_not_counted),
    Mutation("join-wants-nothing", "no static interest at a join's source", source_wants_nothing),
    Mutation("join-carries-interest", "subscriptions come back over a join", interest_comes_back),
    Mutation("join-keeps-addresses", "addresses do not come back over a join", addresses_stay),
    Mutation("join-rows-mixed", "addresses come back over joins by rows of one alone", addresses_come_back_too_far),
)  # fmt: skip
