"""From where on the routing at a source knows of a node's subscriptions, by ledgers. Spec: K25."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from streaming.audits.eras import OF_THE_FILE
from streaming.tables.rows import TopicPartition


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
        is_late: Whether ledger records before it were deleted unread: the source may have known as
            much before.
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
