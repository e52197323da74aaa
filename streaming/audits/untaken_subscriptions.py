"""Subscriptions that no lane takes up: they owe nothing to anybody, and nothing else says so.

What counts is what the origin's lane writes to its ledger (K25). A lane that lives, and can be
reached, knows of a subscription within seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from streaming.audits.block_judgements import World, claims_of
from streaming.audits.blocks import Blocks
from streaming.audits.interest import EndpointKey
from streaming.audits.offers import Offer
from streaming.audits.splits import Splits
from streaming.audits.stalls import UntakenSubscription
from streaming.tables.rows import TopicPartition
from streaming.tables.topics import place_of


def untaken_subscriptions(
    blocks: Blocks, world: World, splits: Splits, now_s: float
) -> Mapping[UntakenSubscription, None]:
    """Return the subscriptions that concern what was published and that its lane does not know.

    Where a subscription cannot come to a lane just now, nothing is expected of it.

    Args:
        blocks: What was published.
        world: The other audits.
        splits: Who is there.
        now_s: The auditor's clock, in seconds.
    """
    found: dict[UntakenSubscription, None] = {}
    endpoints = [one for one in world.interest.certified() if splits.is_heard(one.node, now_s)]
    for place, numbered in blocks.open.items():
        origin = place_of(blocks.prefix, place.topic).node
        if not splits.is_heard(origin, now_s):
            continue
        offer, reached = Offer.of(*numbered.values()), _reached(place, world)
        for endpoint in endpoints:
            if _is_known(endpoint, place, reached, world):
                continue
            if not _can_be_known(origin, endpoint.node, world, splits, now_s):
                continue
            claims = [
                one
                for one in claims_of(place, endpoint, world)
                if one.is_untaken
                or (one.span is not None and one.span.last is None and one.span.first > reached)
            ]
            if any(True for _ in offer.levels(claims)):
                found[UntakenSubscription(endpoint, place)] = None
    return found


def _can_be_known(origin: str, subscriber: str, world: World, splits: Splits, now_s: float) -> bool:
    """Return whether what a node's clients ask for can come to an origin just now.

    It goes the way of the messages back. While links come and go that way is another one soon, and
    a change waits for all nodes; where no topology tells the way, any link may be on it.
    """
    walks = world.eras.walks(origin, subscriber)
    if splits.cut and (splits.is_changing or not walks):
        return False
    return all(splits.is_passable(walk, now_s) for walk in walks)


def _reached(place: TopicPartition, world: World) -> float:
    """Return how far a lane has read its ingress: a cut that is further on tells nothing.

    After an accepted truncation it has read offsets that come again, and cuts may be ahead.
    """
    is_again = world.progress.generation_of.get(place, 0) > 0
    return inf if is_again else world.progress.position(place)


def _is_known(endpoint: EndpointKey, place: TopicPartition, reached: float, world: World) -> bool:
    """Return whether a lane knows by the topology in force all that an endpoint asks for."""
    uuid = world.names.uuids.get(endpoint.node)
    if uuid is None:
        return False
    origin = place_of(world.progress.prefix, place.topic).node
    stretches = world.eras.stretches(place, origin, endpoint.node)
    if not stretches or stretches[-1].last is not None:
        return True  # nothing comes from there any more
    known = world.interest.known_from(endpoint, uuid, place, stretches[-1].era)
    return known is not None and known <= reached
