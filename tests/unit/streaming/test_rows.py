"""The small rows of a batch, as the JVM tells them, become values of Python's own."""

from __future__ import annotations

import json

import pytest

from streaming.tables.digest import Digest
from streaming.tables.filters import ALL
from streaming.tables.rows import DeliveryRow, IngressRow, SourceKey, TopicPartition, read_batch

PLACE = {"topic": "mesh.a.in.g", "partition": 1}
TARGET = {"topic": "mesh.b.ep.s", "partition": 2}
WAY = {
    "source_id": "aa",
    "source_partition": 1,
    "generation": 3,
    "path": ["a", "b"],
    "is_moved": False,
    "message_class": "guaranteed",
}
DIGESTS = {"n": [1, 2], "xor": [3, 4], "high": [5, 6], "low": [7, 8], "content": [9, 10]}
PUBLISHED = {
    "of": "ingress",
    **PLACE,
    "block": 7,
    **DIGESTS,
    "first": [11, 12],
    "last": [13, 14],
    "subject": [None, "x"],
    "selected": ["", None],
    "known": [0, None],
}
DELIVERED = {
    "of": "delivery",
    **TARGET,
    **WAY,
    **DIGESTS,
    "first": [11, 12],
    "last": [13, 14],
    "block": [7, 8],
    "record_first": [20, 15],
    "record_last": [24, 19],
    "late": [0, 2],
}


def test_a_row_with_lists_tells_several_in_the_order_of_their_records():
    batch = read_batch(map(json.dumps, (DELIVERED, PUBLISHED)))
    place, target = (TopicPartition(*one.values()) for one in (PLACE, TARGET))
    one, other = Digest(1, 3, 5, 7, 9), Digest(2, 4, 6, 8, 10)
    assert batch.ingress == [
        IngressRow(place, 7, None, one, 11, 13, "", 0),
        IngressRow(place, 7, "x", other, 12, 14, None, ALL),
    ]
    way = (target, SourceKey("aa", 1), 3, ("a", "b"))
    assert batch.deliveries == [
        DeliveryRow(*way, 8, other, 12, 14, 15, 19, 2, False, "guaranteed"),
        DeliveryRow(*way, 7, one, 11, 13, 20, 24, 0, False, "guaranteed"),
    ]
    assert [type(row.digest) for row in (*batch.ingress, *batch.deliveries)] == [Digest] * 4


@pytest.mark.parametrize("whole", [PUBLISHED, DELIVERED])
def test_lists_of_one_row_are_equally_long(whole):
    """Else a digest would stand for another block, or be left out without a word."""
    with pytest.raises(ValueError, match="shorter"):
        read_batch([json.dumps({**whole, "last": [13]})])
