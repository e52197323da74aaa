"""The chain: it reveals duplicate, gap and order on a link, per outbox partition and source.

Spec: K11.
"""

from __future__ import annotations

from enum import StrEnum

from mesh.model.frames import Chain


class ChainVerdict(StrEnum):
    """What becomes of an arrived frame.

    Attributes:
        ACCEPT: All of it is taken.
        PARTIAL: What follows the last accepted position is taken; the rest are repeats.
        DUPLICATE: Nothing is taken: all are repeats.
        GAP: Nothing is taken: something before it is missing, and a repair must be requested.
        WAITING: Nothing is taken: it follows a known gap, and comes again with the repair.
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
        chain: The frame's chain.
        last: Last accepted position of its source, -1 if there is none.
        is_broken: A gap of the source is known.
        is_excused: Nobody requests what is missing before it.
        is_gap: It announces a loss, which may lie between two consecutive positions.

    Spec: K11.
    """
    is_between = is_gap and chain.previous == chain.last == last
    if last >= chain.last and not is_between:
        return ChainVerdict.DUPLICATE
    if chain.previous > last and not is_excused:
        return ChainVerdict.WAITING if is_broken else ChainVerdict.GAP
    return ChainVerdict.ACCEPT if chain.first > last or is_between else ChainVerdict.PARTIAL
