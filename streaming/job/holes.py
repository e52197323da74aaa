"""What a batch does not hold of the offsets that it went over. Spec: K5.

Spark says nothing of it, and a log does not tell why an offset is not there: the record was
deleted, or compaction took it away, or it belonged to a transaction: as its end, or given up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf

from streaming.connectors.source import Ranges
from streaming.tables.rows import MicroBatch, TopicPartition
from streaming.tables.topics import GUARANTEED, INGRESS, LEDGER, is_of_data, place_of


def begun_late(prefix: str, rows: MicroBatch, ranges: Ranges) -> Sequence[TopicPartition]:
    """Return the partitions of which a batch lacks the first record that it was to read.

    Args:
        prefix: Start of every topic name.
        rows: The batch.
        ranges: What it went over.
    """
    found = _firsts(rows)
    return [
        place
        for place, (first, end) in ranges.items()
        if first < end and found.get(place, end) > first and _has_rows(prefix, place.topic)
    ]


def _has_rows(prefix: str, topic: str) -> bool:
    """Return whether every record of a topic is in some row."""
    return is_of_data(prefix, topic) or place_of(prefix, topic).kind == LEDGER


def _firsts(rows: MicroBatch) -> Mapping[TopicPartition, int]:
    """Return the lowest offset of each partition; most rows come in the order of offsets."""
    found = {row.place: row.record_first for row in reversed(rows.deliveries)}
    found |= {row.place: row.head.offset for row in reversed(rows.frames)}
    found |= {row.place: row.offset for row in reversed(rows.ledgers)}
    for stray in rows.strays:
        found[stray.place] = min(stray.first, found.get(stray.place, stray.first))
    for row in rows.ingress:
        if row.first < found.get(row.place, inf):
            found[row.place] = row.first
    return found


def gaps(prefix: str, rows: MicroBatch, ranges: Ranges) -> Mapping[TopicPartition, int]:
    """Return how many offsets are not there, of each ingress partition where some are not.

    Of direct messages nothing is certified, and what is gone from outboxes and endpoints breaks
    chains, or is missing.

    Args:
        prefix: Start of every topic name.
        rows: The batch.
        ranges: What it went over.
    """
    read: Counter[TopicPartition] = Counter()
    for row in rows.ingress:
        read[row.place] += row.digest.count
    places = {place: place_of(prefix, place.topic) for place in ranges}
    lacking = {
        place: end - first - read[place]
        for place, (first, end) in ranges.items()
        if places[place].kind == INGRESS and places[place].letter == GUARANTEED
    }
    return {place: count for place, count in lacking.items() if count > 0}
