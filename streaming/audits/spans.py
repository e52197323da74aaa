"""What an endpoint claims of one source: from where to where it must get messages. Spec: K25, K31.

An endpoint *must* get a message from the cut on with which the origin's ingress partition began
to know the subscription, up to the last message that the subscriber's own lanes had routed when
they put its end in force. Before and after it *may*.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from mesh.model.frames import MessageClass
from streaming.audits.claims import Claim, Span, unproven
from streaming.audits.cuts import CutKey
from streaming.audits.eras import OF_THE_FILE, Stretch
from streaming.audits.interest import EndpointKey, SubscriptionHistory
from streaming.audits.lane_knowledge import EndKey
from streaming.audits.queues import EVERYWHERE, SHARED
from streaming.audits.subscriptions import EVERYTHING, JudgedSubscription
from streaming.tables.rows import SourceKey, TopicPartition

Carriers = Callable[[str, SourceKey], Sequence[TopicPartition]]
"""Node and source -> outbox partitions over which the node got messages of the source."""

_GUARANTEED = f".{MessageClass.GUARANTEED.letter}"


def claims_on(
    interest: SubscriptionHistory,
    endpoint: EndpointKey,
    uuid: str | None,
    place: TopicPartition,
    source: SourceKey | None,
    *,
    is_local: bool,
    carriers: Carriers,
    stretches: Sequence[Stretch] = (Stretch(),),
    of_neighbours: Sequence[Stretch] = (Stretch(),),
    origin: str = "",
    is_read: Callable[[TopicPartition], bool] = lambda _: True,
    below: float = 0,
) -> Sequence[Claim]:
    """Return what an endpoint claims of one ingress partition.

    Args:
        interest: What was ever asked for, and where sources knew it.
        endpoint: Who claims.
        uuid: Of its node; None as long as the node has not told it.
        place: The ingress partition.
        source: The same by topic id, if known.
        is_local: Whether the ingress belongs to the endpoint's own node.
        carriers: How messages came to the endpoint's node.
        stretches: Where in the ingress messages can come to the endpoint at all.
        of_neighbours: Where they can come to a queue with a home, which is for neighbours alone.
        origin: Whose ingress it is.
        is_read: Whether a source partition is still read: of others no cut comes any more.
        below: What came of offsets below this one may have been deleted unread.
    """
    spans = None
    if uuid is not None and source is not None:
        ways = (place,) if is_local else tuple(carriers(endpoint.node, source))
        spans = Spans(interest, uuid, place, source, ways, origin, endpoint.node)
    claims: list[Claim] = []
    asked = interest.subscriptions.get(endpoint, ())
    is_channel = any(one.is_channel for one in asked)
    for subscription in asked:
        is_sure = subscription.policy and not subscription.is_unsure
        is_at_home = is_sure and subscription.policy == "home"
        for stretch in of_neighbours if is_at_home else stretches:
            between = stretch.between
            if between.is_direct_only and place.topic.endswith(_GUARANTEED):
                continue  # it does not come: should it, nobody claims it. DMR-11
            if is_sure and not interest.queues.may_come(
                subscription.policy, endpoint.name, endpoint.node, between, is_local=is_local
            ):
                continue
            span, undecided, until, unknown = None, None, None, 0.0
            is_owed = subscription.is_certified and (is_local or not subscription.noexport)
            is_passed = between.is_sure or subscription.policy in SHARED  # by selectors, surely
            is_refusable = is_owed and (subscription.is_surplus or not is_passed)
            is_owed &= not is_refusable
            is_last = subscription.removed is None and stretch.last is None
            if is_owed and spans is not None:
                span = spans.owed(subscription, stretch)
                unknown = spans.unknown_below(subscription, stretch)
                if subscription.removed is not None:
                    until = spans.until(subscription)
                    undecided = spans.undecided(subscription, stretch, span, is_read)
            elif spans is not None and subscription.is_gone and is_channel:
                until = spans.until(subscription, is_channel=True)
            others = (*between.joins, *between.kept)
            claim = Claim(
                subscription.filter,
                span,
                between,
                is_untaken=is_owed and is_last and span is None and not unknown,
                is_refusable=is_refusable,
                newest=interest.filters.newest((subscription.filter, *others)),
                undecided=undecided,
                until=until,
            )
            if span is not None and span.first < below:
                unknown = max(unknown, below)
            claims += unproven(claim, unknown) if unknown else [claim]
            if subscription.is_wide:
                newest = interest.filters.newest((EVERYTHING, *others))
                claims.append(Claim(EVERYTHING, None, between, newest=newest, until=until))
    return claims


def is_settled(
    interest: SubscriptionHistory, endpoint: EndpointKey, claims: Sequence[Claim], first: int
) -> bool:
    """Return whether a shared queue was one all along from a source offset on."""
    is_shared = endpoint.node == EVERYWHERE
    if not is_shared or not any(one.is_unsure for one in interest.of_queue(endpoint)):
        return True
    begins = [claim.span.first for claim in claims if claim.span is not None]
    return bool(begins) and first >= max(begins)


@dataclass(frozen=True, slots=True)
class Spans:
    """One source as subscriptions of one node are owed it.

    Attributes:
        interest: Where sources knew of subscriptions.
        uuid: Of the node.
        place: The ingress partition.
        source: The same by topic id.
        ways: Partitions over which its messages come to the node: the ingress itself, or outboxes.
        origin: Whose ingress it is.
        reader: The node.
    """

    interest: SubscriptionHistory
    uuid: str
    place: TopicPartition
    source: SourceKey
    ways: Sequence[TopicPartition]
    origin: str
    reader: str

    def owed(self, subscription: JudgedSubscription, stretch: Stretch) -> Span | None:
        """Return the owed offsets within a stretch, as far as they are known."""
        first = self._begin(subscription, stretch)
        if first is None or (stretch.last is not None and first > stretch.last):
            return None
        removed = subscription.removed
        if removed is None:
            return Span(first, stretch.last)
        told = [one for one in self._ends(self.ways, removed) if one is not None]
        last = max((*told, subscription.lacked.get(self.place, -1)), default=-1)
        limit = self._limit(removed, stretch)
        last = last if limit is None else min(last, limit)
        return Span(first, last) if first <= last else None

    def undecided(
        self,
        subscription: JudgedSubscription,
        stretch: Stretch,
        span: Span | None,
        is_read: Callable[[TopicPartition], bool],
    ) -> Span | None:
        """Return the offsets that may be owed until a cut shows where the subscription ended."""
        first, removed = self._begin(subscription, stretch), subscription.removed
        if first is None or removed is None or self._is_end_lost(removed):
            return None
        if None not in self._ends([one for one in self.ways if is_read(one)], removed):
            return None
        begin = first if span is None or span.last is None else span.last + 1
        limit = self._limit(removed, stretch)
        return Span(begin, limit) if limit is None or begin <= limit else None

    def unknown_below(self, subscription: JudgedSubscription, stretch: Stretch) -> float:
        """Return below which offset nobody can tell what is owed: ledgers are gone that told it.

        Where that is the end which they told, nothing is owed from there on where the origin's
        lane knew of it.
        """
        removed = subscription.removed
        if removed is not None and self._is_end_lost(removed):
            forgotten = self._position(removed)
            return inf if forgotten is None else forgotten
        return self._unknown_below(self.place, self.origin, subscription.added, stretch.era)

    def _is_end_lost(self, removed: int) -> bool:
        ways = ((self.place, self.origin), *((way, self.reader) for way in self.ways))
        return any(self._unknown_below(*way, removed) for way in ways)

    def _unknown_below(
        self, way: TopicPartition, node: str, version: int, era: int = OF_THE_FILE
    ) -> float:
        return self.interest.lanes.unknown_below(CutKey(way, self.uuid), node, version, era)

    def until(self, subscription: JudgedSubscription, *, is_channel: bool = False) -> int | None:
        """Return the last offset that may still come to a subscription that has ended.

        That is what came before its own lanes knew of the end, and what its origin's lane routed
        before it did. None where not all of that is known, or what was moved may come at any time.

        Args:
            subscription: The subscription.
            is_channel: Whether its endpoint is a channel, to which nothing is moved.
        """
        removed, may_move = subscription.removed, subscription.may_move and not is_channel
        if removed is None or may_move or not self.ways:
            return None
        forgotten = self._position(removed)
        ends = self._ends(self.ways, removed)
        told = [one for one in ends if one is not None and one >= 0]
        if forgotten is None or len(told) < len(ends):
            return None
        return max(forgotten - 1, *told)

    def _begin(self, subscription: JudgedSubscription, stretch: Stretch) -> int | None:
        return self.interest.lanes.position(self.place, self.uuid, subscription.added, stretch.era)

    def _position(self, version: int) -> int | None:
        return self.interest.lanes.position(self.place, self.uuid, version)

    def _limit(self, removed: int, stretch: Stretch) -> int | None:
        """Return the last offset that can be owed to a subscription that has ended, if any.

        From some position on its origin's lane has known of the end, or gone by another topology.
        """
        forgotten = self._position(removed)
        ends = [stretch.last, None if forgotten is None else forgotten - 1]
        return min((one for one in ends if one is not None), default=None)

    def _ends(self, ways: Sequence[TopicPartition], removed: int) -> Sequence[int | None]:
        return [self._end(way, removed) for way in ways]

    def _end(self, way: TopicPartition, removed: int) -> int | None:
        """Return the last offset of the source that came this way before the subscription ended.

        None as long as that is not known: -1 where none did.
        """
        position = self.interest.lanes.position(way, self.uuid, removed)
        if position is None:
            return None
        if way == self.place:
            return position - 1
        end = self.interest.lanes.ends.get(EndKey(way, position))
        return None if end is None else end.get(self.source, -1)
