"""What the digests of a block tell about one endpoint. Spec: K29, K31."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

from streaming.audits.cases import Want
from streaming.audits.claims import Claim, Level, Span
from streaming.audits.generations import Generation
from streaming.audits.matching import claim_pattern
from streaming.audits.offers import Offer
from streaming.audits.ways import Between
from streaming.tables.digest import NOTHING, Digest


class DigestVerdict(Enum):
    """The result of comparing digests, without reading messages."""

    NOTHING = "nothing to certify"
    EQUAL = "equal"
    UNEQUAL = "unequal"
    CORRUPT = "the same messages, but not with the same content"
    UNSURE = "some may come and some must: only the messages tell"


def compare(offer: Offer, delivered: Digest, claims: Sequence[Claim]) -> DigestVerdict:
    """Return what the digests tell.

    Args:
        offer: What was published.
        delivered: What came to an endpoint, or to all members of a queue together.
        claims: What they ask for.
    """
    equal = DigestVerdict.EQUAL if delivered.count else DigestVerdict.NOTHING
    if (whole := offer.whole(claims)) is not None and whole == delivered:
        return equal
    sums: dict[Level, Digest] = {}
    for level, tally in offer.levels(claims):
        sums[level] = sums.get(level, NOTHING) + tally.digest
    must = sums.get(Level.MUST, NOTHING)
    everything = sum(sums.values(), NOTHING)
    may_owe_more = offer.may_owe(claims)
    is_split = Level.MIXED in sums
    is_cut_off = offer.is_cut_off(claims)
    if not (may_owe_more or is_cut_off):
        if delivered == everything or (delivered == must and not is_split):
            return equal
        if delivered.has_ids_of(everything) or (delivered.has_ids_of(must) and not is_split):
            return DigestVerdict.CORRUPT
    is_sure = not (Level.MAY in sums or is_split or is_cut_off or offer.is_vague(claims))
    return DigestVerdict.UNEQUAL if is_sure else DigestVerdict.UNSURE


def owed(offer: Offer, claims: Sequence[Claim]) -> Digest | None:
    """Return the digest of what claims select if all of it is owed, else None."""
    levels = list(offer.levels(claims))
    if offer.is_vague(claims) or any(level is not Level.MUST for level, _ in levels):
        return None
    return sum((tally.digest for _, tally in levels), NOTHING)


def is_too_much(offer: Offer, delivered: Digest, claims: Sequence[Claim]) -> bool:
    """Return whether more was delivered than is allowed: copies, or unrequested messages."""
    most = sum(tally.digest.count for _, tally in offer.levels(claims))
    return delivered.count > most and not offer.is_vague(claims)


def is_proof(offer: Offer, delivered: Digest, claims: Sequence[Claim]) -> bool:
    """Return whether all came that may have been owed: else what is lost may be among the rest.

    So it is behind a selector, of what it may have refused. Spec: EMS-14.
    """
    refusable = [claim for claim in claims if claim.is_refusable]
    if not refusable:
        return True
    if offer.is_vague(refusable):
        return False
    if not any(True for _ in offer.levels(refusable)):
        return True
    return sum((tally.digest for _, tally in offer.levels(claims)), NOTHING) == delivered


def musts_of(
    claims: Sequence[Claim], last: int, generations: Sequence[Generation]
) -> tuple[str, ...]:
    """Return what is owed up to an offset, as words that can be compared."""
    spans = [(claim, claim.span) for claim in claims if claim.span is not None]
    owed = {
        f"{claim.filter} {claim.between} {span.first}-"
        f"{last if span.last is None else min(last, span.last)}": None
        for claim, span in spans
        if span.first <= last
    }
    told = [f"generation {one.number} from {one.first}" for one in generations if one.first <= last]
    return (*sorted(owed), *told)


def wants_of(claims: Sequence[Claim], first: int, last: int) -> Iterator[Want]:
    """Yield what is owed and what is allowed of some offsets, for reading by message."""
    may: dict[tuple[Between, int | None], dict[str, None]] = {}
    must: dict[tuple[Between, Span], dict[str, None]] = {}
    for claim in claims:
        may.setdefault((claim.between, claim.until), {})[claim.filter] = None
        span = claim.span
        if span is not None and span.level(first, last) is not Level.MAY:
            must.setdefault((claim.between, span), {})[claim.filter] = None
    for (between, until), filters in may.items():
        end = last if until is None else min(last, until)
        if first <= end:
            yield Want(_pattern(filters, between), first, end, is_must=False)
    for (between, span), filters in must.items():
        end = last if span.last is None else min(last, span.last)
        yield Want(_pattern(filters, between), max(first, span.first), end, is_must=True)


def _pattern(filters: Iterable[str], between: Between) -> str:
    return claim_pattern(filters, between.joins, between.kept)
