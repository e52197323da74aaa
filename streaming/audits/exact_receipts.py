"""Endpoints that got exactly what their one simple claim is about: nearly all, found together.

Where endpoints are many, looking at each of them by itself took a fifth of the auditor's Python.
"""

from __future__ import annotations

from collections.abc import Mapping

from streaming.audits.block import NO_RECEIPT
from streaming.audits.block_judgements import BlockJudgement, World, is_plain
from streaming.audits.comparisons import PartitionClaims
from streaming.audits.interest import EndpointKey
from streaming.tables.digest import Digest


def exact_receipts(
    judgement: BlockJudgement, claimed: PartitionClaims, world: World
) -> Mapping[EndpointKey, Digest]:
    """Return those of them that are not through yet, each with what it got."""
    comparison, claims, is_glance = judgement.comparison, claimed.claims, judgement.is_glance
    endpoints = [
        one
        for one in claimed.simple
        if one in comparison.alone
        and not comparison.is_through(one, claims[one], is_glance=is_glance)
    ]
    owed = [comparison.offer.whole(claims[one]) for one in endpoints]
    got = [judgement.block.receipts.get(one, NO_RECEIPT) for one in endpoints]
    return {
        one: there.digest
        for one, whole, there in zip(endpoints, owed, got, strict=True)
        if whole == there.digest and is_plain(judgement, there.generations, world)
    }
