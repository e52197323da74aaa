"""The chain: what tells duplicate, gap and order on a link, per outbox partition and source.

Spec: K11.
"""

from __future__ import annotations

from enum import StrEnum

from mesh.model.frames import Chain


class ChainVerdict(StrEnum):
    """What becomes of an arrived frame.

    Attributes:
        ACCEPT: All of it is taken.
        PARTIAL: What is behind the last accepted position is; the rest are repeats.
        DUPLICATE: Nothing, all are repeats.
        GAP: Nothing: something before it is missing, and a repair is to be asked for.
        WAITING: Nothing: it comes after a gap that is known, and again with the repair.
    """

    ACCEPT = "accept"
    PARTIAL = "partial"
    DUPLICATE = "duplicate"
    GAP = "gap"
    WAITING = "waiting"


def judge(
    chain: Chain,
    last: int,
    *,
    is_broken: bool = False,
    is_excused: bool = False,
    is_gap: bool = False,
) -> ChainVerdict:
    """Return what becomes of a frame.

    Args:
        chain: What it says.
        last: Last position of its source that was accepted, -1 if none was.
        is_broken: A gap of the source is known.
        is_excused: What is missing before it is asked for by nobody.
        is_gap: It announces a loss, which may stand between two positions that follow each other.

    Spec: K11.
    """
    is_between = is_gap and chain.previous == chain.last == last
    if last >= chain.last and not is_between:
        return ChainVerdict.DUPLICATE
    if chain.previous > last and not is_excused:
        return ChainVerdict.WAITING if is_broken else ChainVerdict.GAP
    return ChainVerdict.ACCEPT if chain.first > last or is_between else ChainVerdict.PARTIAL
