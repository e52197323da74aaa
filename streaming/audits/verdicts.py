"""What the digests of a block tell about one endpoint. Spec: K29, K31."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

from streaming.audits.blocks import Block
from streaming.audits.cases import Want
from streaming.audits.interest import Claim, EndpointKey, Level
from streaming.audits.matching import is_subject
from streaming.audits.turns import Turn
from streaming.tables.digest import NOTHING, Digest


class Verdict(Enum):
    """What digests alone tell."""

    NOTHING = "nothing to certify"
    EQUAL = "equal"
    UNEQUAL = "unequal"
    CORRUPT = "the same messages, but not with the same content"
    UNSURE = "some may come and some must: only the messages tell"


def compare(
    block: Block, members: Sequence[EndpointKey], claims: Sequence[Claim]
) -> tuple[Verdict, int]:
    """Return what the digests tell, and how many messages were expected if they are equal.

    Args:
        block: What was published and what was delivered.
        members: The endpoint, or all members of a queue together.
        claims: What they ask for.
    """
    sums: dict[Level, Digest] = {}
    for subject, tally in block.subjects.items():
        level = _level(claims, subject, tally.first, tally.last)
        if level is not Level.NONE:
            sums[level] = sums.get(level, NOTHING) + tally.digest
    delivered = block.delivered(members)
    must = sums.get(Level.MUST, NOTHING)
    everything = sum(sums.values(), NOTHING)
    if delivered == everything or (delivered == must and Level.MIXED not in sums):
        return (Verdict.EQUAL if delivered.count else Verdict.NOTHING), delivered.count
    if delivered.has_ids_of(everything) or (delivered.has_ids_of(must) and Level.MIXED not in sums):
        return Verdict.CORRUPT, delivered.count
    is_sure = Level.MAY not in sums and Level.MIXED not in sums
    return (Verdict.UNEQUAL if is_sure else Verdict.UNSURE), 0


def is_proof(block: Block, members: Sequence[EndpointKey], claims: Sequence[Claim]) -> bool:
    """Say whether all came that would have been owed without the selectors on the way.

    What is lost behind one is not told from what it refused: no proof. Spec: EMS-14.
    """
    refusable = [claim for claim in claims if claim.is_refusable]
    if not refusable:
        return True
    everything = NOTHING
    is_concerned = False
    for subject, tally in block.subjects.items():
        if is_subject(subject) and any(claim.concerns(subject) for claim in claims):
            everything += tally.digest
            is_concerned |= any(claim.concerns(subject) for claim in refusable)
    return not is_concerned or block.delivered(members) == everything


def _level(claims: Sequence[Claim], subject: str, first: int, last: int) -> Level:
    if not is_subject(subject):
        return Level.NONE
    levels = [
        Level.MAY if claim.span is None else claim.span.level(first, last)
        for claim in claims
        if claim.concerns(subject)
    ]
    return max(levels, default=Level.NONE)


def musts_of(claims: Sequence[Claim], last: int, turns: Sequence[Turn]) -> tuple[str, ...]:
    """Return what is owed up to an offset, as words that can be compared."""
    spans = [(claim, claim.span) for claim in claims if claim.span is not None]
    owed = {
        f"{claim.filter} {claim.between} {span.first}-"
        f"{last if span.last is None else min(last, span.last)}": None
        for claim, span in spans
        if span.first <= last
    }
    again = [f"{turn}" for turn in turns if turn.first <= last]
    return (*sorted(owed), *again)


def wants_of(block: Block, claims: Sequence[Claim], first: int, last: int) -> Iterator[Want]:
    """Yield what must and what may come of a block, for reading it message by message."""
    for subject in block.subjects:
        if not is_subject(subject):
            continue
        matching = [claim for claim in claims if claim.concerns(subject)]
        if matching:
            yield Want(subject, first, last, is_must=False)
        for span in [claim.span for claim in matching]:
            if span is not None and span.level(first, last) is not Level.MAY:
                end = last if span.last is None else min(last, span.last)
                yield Want(subject, max(first, span.first), end, is_must=True)
