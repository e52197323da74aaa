"""Which filters that endpoints have left matter still to what is not certified for good.

As long as one does, its subscription is known: without it what came by it would be unexpected, and
what has not come would not have been owed. Spec: K25, K31.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from streaming.audits.block import Block
from streaming.audits.block_judgements import World, claims_of
from streaming.audits.blocks import Blocks
from streaming.audits.claims import Claim, Level
from streaming.audits.interest import EndpointKey
from streaming.audits.offers import Offer
from streaming.audits.queues import EVERYWHERE
from streaming.audits.verdicts import DigestVerdict, compare
from streaming.tables.digest import BLOCK_OFFSETS
from streaming.tables.rows import TopicPartition
from streaming.tables.topics import place_of


@dataclass(slots=True)
class NeededFilters:
    """What open blocks, and deliveries that wait for theirs, are judged by.

    Attributes:
        blocks: All that are open.
        world: The other audits.
        is_unread: Whether a source partition may hold what has not been read yet, since its Kafka
            cluster does not answer or is read late.
    """

    blocks: Blocks
    world: World
    is_unread: Callable[[TopicPartition], bool] = lambda _: False
    _waiting: Collection[EndpointKey] | None = field(default=None, init=False, repr=False)
    _offers: dict[tuple[TopicPartition, int], Offer] = field(
        default_factory=dict, init=False, repr=False
    )

    def of(self, endpoint: EndpointKey, filters: Collection[str]) -> Collection[str]:
        """Return the filters that matter, of some that an endpoint has left.

        Where the endpoint got just what it asks for otherwise, they do not: of bundles that were
        made before a filter was known nothing is known of it, and a block may stay open for ever.
        """
        if endpoint in self._endpoints_waiting():
            return filters
        members = [*self.world.interest.sharing(endpoint)] or [endpoint]
        found: dict[str, None] = {}
        for place, blocks in self.blocks.open.items():
            claims = claims_of(place, endpoint, self.world)
            left = [one for one in claims if one.filter in filters]
            others = [one for one in claims if one.filter not in filters]
            for number, block in blocks.items():
                has_come = any(one in block.receipts for one in members)
                if has_come and self.is_unread(place):
                    return filters
                is_open = _lacks(block, endpoint) or self._is_undecided(place, number, left)
                if not (is_open or has_come):
                    continue
                offer = self._offer(place, number)
                verdict = compare(offer, block.delivered([endpoint]), others)
                is_explained = verdict in (DigestVerdict.EQUAL, DigestVerdict.NOTHING)
                if not is_open and members == [endpoint] and is_explained:
                    continue
                found.update(self._claimed(offer, filters))
        return found

    def _claimed(self, offer: Offer, filters: Collection[str]) -> Mapping[str, None]:
        known = self.world.interest.filters
        return {
            one: None
            for one in filters
            if offer.is_claimed(Claim(one, None, newest=known.newest([one])))
        }

    def _is_undecided(self, place: TopicPartition, number: int, left: Sequence[Claim]) -> bool:
        """Return whether lanes have to tell where subscriptions ended that a block is owed to."""
        begin, last = number * BLOCK_OFFSETS, self.blocks.open[place][number].last
        spans = [one.undecided for one in left if one.undecided is not None]
        if all(span.level(begin, last) is Level.MAY for span in spans):
            return False
        return self._offer(place, number).is_undecided(left)

    def _offer(self, place: TopicPartition, number: int) -> Offer:
        key = place, number
        if key not in self._offers:
            self._offers[key] = Offer.of(self.blocks.open[place][number])
        return self._offers[key]

    def _endpoints_waiting(self) -> Collection[EndpointKey]:
        """Return the endpoints with deliveries of which nobody knows yet whose they are."""
        if self._waiting is None:
            unplaced = self.blocks.unplaced
            topics = {key.topic: None for key in unplaced.parked}
            places = [place_of(self.blocks.prefix, topic) for topic in topics]
            parked = (EndpointKey(place.node, place.other) for place in places)
            self._waiting = {*parked, *(key.endpoint for key in unplaced.late)}
        return self._waiting


def _lacks(block: Block, endpoint: EndpointKey) -> bool:
    """Return whether something of a block has not come to an endpoint, or to its queue."""
    keys = (endpoint, EndpointKey(EVERYWHERE, endpoint.name.casefold()))
    certificates = [block.issued[one] for one in keys if one in block.issued]
    return any(one in block.unequal for one in keys) or not all(one.equal for one in certificates)
