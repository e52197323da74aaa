"""Certificates as they are issued, each in the place of the one before it. Spec: K29."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mesh.model.findings import FindingKind
from streaming.audits.block import Certificate, Moments
from streaming.audits.block_judgements import BlockJudgement, Certification, MessageCounts
from streaming.audits.cases import BlockFault, fault
from streaming.audits.interest import EndpointKey
from streaming.tables.digest import BLOCK_OFFSETS, Digest
from streaming.tables.rows import in_columns


def issue(
    certification: Certification,
    judgement: BlockJudgement,
    endpoint: EndpointKey,
    members: Sequence[EndpointKey],
    last: int,
    counts: MessageCounts,
    *,
    is_equal: bool = True,
    is_sure: bool = True,
    first: int = 0,
) -> None:
    """Issue the certificate of an endpoint, if it says something new.

    Args:
        certification: Of all blocks.
        judgement: That of the block.
        endpoint: Who.
        members: Itself, or all of a queue of which one gets a message.
        last: Last source offset that it speaks for.
        counts: What it counts.
        is_equal: Whether these are the same messages.
        is_sure: Whether nothing can be missing.
        first: First source offset that it speaks for, if the block begins before.
    """
    issued = judgement.block.issued
    if judgement.owners:
        stamp = (judgement.block.stamp, certification.world.version)
        strays = [one for one in judgement.owners if one in members]
        is_equal &= not any(judgement.block.settled.get(one) == stamp for one in strays)
    if is_equal and endpoint in judgement.others and endpoint not in issued:
        return
    first, last, moments = _bounds(certification, judgement, first, last)
    certificate = Certificate(
        source=judgement.source,
        block=judgement.number,
        first=first,
        last=last,
        endpoint=str(endpoint),
        expected=counts.expected,
        delivered=counts.delivered,
        equal=is_equal,
        partial=not judgement.is_closed,
        sure=is_sure,
        digest=judgement.block.delivered(members),
        first_ms=moments.first_ms,
        last_ms=moments.last_ms,
    )
    if issued.get(endpoint) != certificate:
        issued[endpoint] = certificate
        certification.issued[certificate.key] = certificate


def issue_exact(
    certification: Certification, judgement: BlockJudgement, exact: Mapping[EndpointKey, Digest]
) -> None:
    """Issue at once what `issue` would to each of those that have just what one digest tells.

    Args:
        certification: Of all blocks.
        judgement: That of the block.
        exact: Endpoints in no queue, to which something is promised, each with what it got.
    """
    first, last, moments = _bounds(certification, judgement, 0, judgement.block.last)
    texts, digests = [*map(str, exact)], [*exact.values()]
    counts = [one.count for one in digests]
    told = judgement.source, judgement.number, first, last, texts, counts, counts
    certain = True, not judgement.is_closed, True
    made = in_columns(Certificate, len(exact), *told, *certain, digests, *moments)
    issued = judgement.block.issued
    news = {one: new for one, new in zip(exact, made, strict=True) if issued.get(one) != new}
    issued.update(news)
    certification.issued.update((one.key, one) for one in news.values())


def _bounds(
    certification: Certification, judgement: BlockJudgement, first: int, last: int
) -> tuple[int, int, Moments]:
    """Return between which offsets of a block a certificate speaks, and when they were routed.

    Up to the last of a closed block is up to its end.
    """
    begin = judgement.number * BLOCK_OFFSETS
    if judgement.is_closed and last == judgement.block.last:
        last = begin + BLOCK_OFFSETS - 1
    key = max(first, begin), last
    if (moments := judgement.moments.get(key)) is None:
        moments = judgement.moments[key] = certification.blocks.times_of(judgement.place, *key)
    return *key, moments


def withdraw_faults(
    certification: Certification,
    judgement: BlockJudgement,
    endpoint: EndpointKey,
    keep: Sequence[str] = (),
) -> None:
    """Withdraw what was said before of messages that are certified, but for what still holds.

    Args:
        certification: Of all blocks.
        judgement: That of the block.
        endpoint: Who.
        keep: Ids of findings that hold.
    """
    register = certification.world.register
    if not register.groups:
        return
    kinds: Sequence[BlockFault] = (
        FindingKind.MISSING,
        FindingKind.UNEXPECTED,
        FindingKind.CORRUPT,
    )
    for kind in kinds:
        if not register.has(kind, str(endpoint), endpoint.node):
            continue
        finding = fault(kind, judgement.place, judgement.number, endpoint)
        if finding.id not in keep:
            register.withdraw(finding.id)
