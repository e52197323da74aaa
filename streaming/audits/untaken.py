"""Subscriptions that no lane takes up: they owe nothing to anybody, and nothing else says so.

What counts is what the origin's lane writes to its ledger (K25). A lane that lives, and can be
reached, knows of a subscription within seconds.
"""

from __future__ import annotations

from collections.abc import Mapping

from streaming.audits.blocks import Blocks
from streaming.audits.judgements import World, claims_of
from streaming.audits.offers import Offer
from streaming.audits.splits import Splits
from streaming.audits.stalls import Untaken
from streaming.tables.topics import place_of


def untaken(blocks: Blocks, world: World, splits: Splits, now_s: float) -> Mapping[Untaken, None]:
    """Return the subscriptions that concern what was published and that its lane does not know.

    While a link is cut, or one of both nodes does not beat, nothing is expected of anybody.

    Args:
        blocks: What was published.
        world: The other audits.
        splits: Who is there.
        now_s: The auditor's clock, in seconds.
    """
    found: dict[Untaken, None] = {}
    if splits.cut:
        return found
    endpoints = [
        (endpoint, world.names.uuids.get(endpoint.node, ""))
        for endpoint in world.interest.certified()
        if splits.is_heard(endpoint.node, now_s)
    ]
    for place, numbered in blocks.open.items():
        if not splits.is_heard(place_of(blocks.prefix, place.topic).node, now_s):
            continue
        offer = Offer.of(*numbered.values())
        for endpoint, uuid in endpoints:
            if not uuid or world.interest.is_known(endpoint, uuid, place):
                continue
            claims = [one for one in claims_of(place, endpoint, world) if one.is_untaken]
            if any(True for _ in offer.levels(claims)):
                found[Untaken(endpoint, place)] = None
    return found
