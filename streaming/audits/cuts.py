"""From where on the routing at a source knows of a node's subscriptions, by ledgers. Spec: K25."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from streaming.audits.eras import OF_THE_FILE
from streaming.tables.rows import TopicPartition

UNREAD_MAX = 100
"""Cuts of one source and node that are kept for subscriptions that are not read yet; what older
ones would tell of these is unproven."""


class CutKey(NamedTuple):
    """The cuts of one source partition for one subscriber's node."""

    place: TopicPartition
    uuid: str


class KnownCut(NamedTuple):
    """From `position` on, routing at a source partition knows `clients` up to an offset.

    Attributes:
        position: Of the source.
        offset: Of `clients`.
        era: Number of the topology that the source was routed by when the ledger told it. Of
            cuts at one position the order of the ledger counts: what came before a change was
            forgotten with it.
        topic_id: Of the source, in hexadecimal.
        is_late: Whether ledger records before it were deleted unread, or cuts forgotten: the source
            may have known as much before.
    """

    position: int
    offset: int
    era: int = OF_THE_FILE
    topic_id: str = ""
    is_late: bool = False


def first_knowing(cuts: Sequence[KnownCut], version: int, era: int) -> int:
    """Return the number of the first cut by a topology or a later one that knows a version."""
    number = bisect_left(cuts, version, key=lambda cut: cut.offset)
    while number < len(cuts) and cuts[number].era < era:
        number += 1
    return number


def cut_that_knows(cuts: Sequence[KnownCut], version: int, era: int) -> KnownCut | None:
    """Return the first cut by a topology or a later one that knows a version, if one does."""
    number = first_knowing(cuts, version, era)
    return cuts[number] if number < len(cuts) else None


def followed_by(cut: KnownCut, known: Sequence[KnownCut], *, is_again: bool) -> list[KnownCut]:
    """Return the cuts of a source once another one was told.

    One that tells no newer offset of `clients` than an earlier one is no news; one by a later
    topology may tell the same.

    Args:
        cut: What was told.
        known: What was told before, in the order of the ledger.
        is_again: Whether offsets of the source have come again: then a lane may go back, and what
            it knew further on it knows of those that come since. Spec: K9.
    """
    if not known or known[-1].topic_id != cut.topic_id:
        return [cut]  # offsets of a former topic of this name say nothing here
    if is_again and cut.position < known[-1].position:
        known = [one._replace(position=min(one.position, cut.position)) for one in known]
    last = known[-1]
    least = last.offset if last.era < cut.era else last.offset + 1
    is_news = cut.offset >= least and cut.position >= last.position
    return [*known, cut] if is_news else [*known]


def told_until(era: int, cuts: Iterable[KnownCut]) -> list[KnownCut]:
    """Return cuts with no topology number above this one."""
    return [one._replace(era=min(one.era, era)) for one in cuts]


def joined(before: Sequence[KnownCut], now: Iterable[KnownCut]) -> list[KnownCut]:
    """Return the cuts under a node's former uuid, followed by those under its present one."""
    return [*before, *(one for one in now if one.offset >= before[-1].offset)]


def answering(
    cuts: Sequence[KnownCut], versions: Iterable[int], eras: Iterable[int], unread: float
) -> list[KnownCut]:
    """Return the cuts that answer for versions by topologies, and the newest.

    Those that tell versions of which no record has been read answer for whatever is there.

    Args:
        cuts: All of them, in the order of the ledger.
        versions: That are asked for.
        eras: Numbers of topologies.
        unread: Offset of `clients` up to which it has been read.
    """
    asked = [(version, era) for version in versions for era in eras]
    numbers = [first_knowing(cuts, *one) for one in asked]
    begin = bisect_left(cuts, unread, key=lambda cut: cut.offset)
    first = max(begin, len(cuts) - UNREAD_MAX)
    kept = dict.fromkeys((*numbers, *range(first, len(cuts)), len(cuts) - 1))
    return [
        cuts[number]._replace(is_late=True) if number == first > begin else cuts[number]
        for number in sorted(kept)
        if number < len(cuts)
    ]
