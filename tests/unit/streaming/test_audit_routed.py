"""Which messages a stretch of time holds, by what ledgers tell."""

from __future__ import annotations

import pytest

from mesh.codec.state import encode_ledger
from mesh.model.state import Ledger, SourceRange
from streaming.audits.names import Names
from streaming.audits.routed import Routed
from streaming.tables.digest import BLOCK_OFFSETS, NOTHING
from streaming.tables.rows import Batch, DeliveryRow, SmallRow, SourceKey, TopicPartition

INGRESS = "mesh.a.in.g"
ID = b"i" * 16
SOURCE = SourceKey(ID.hex(), 1)
PLACE = TopicPartition(INGRESS, 1)


@pytest.fixture
def names() -> Names:
    made = Names()
    made.tell(INGRESS, ID.hex())
    return made


@pytest.fixture
def routed() -> Routed:
    return Routed("mesh.", 1_000, 2_000)


def ledger(at_ms: int, first: int, end: int, topic: str = INGRESS, id_: bytes = ID) -> SmallRow:
    sources = [SourceRange(topic, id_, 1, first, end, end - first)]
    value = encode_ledger(Ledger(node="a", lane=0, lane_epoch=1, sources=sources))
    return SmallRow(TopicPartition("mesh.a.ledger", 0), 0, "", value, at_ms)


def delivery(first: int, last: int, source: SourceKey = SOURCE) -> DeliveryRow:
    return DeliveryRow(
        place=TopicPartition("mesh.a.ep.s", 0),
        source=source,
        generation=0,
        path=("a",),
        block=first // BLOCK_OFFSETS,
        digest=NOTHING,
        first=first,
        last=last,
        record_first=0,
        record_last=0,
        late=0,
    )


def test_whole_blocks_are_of_it_of_which_something_was_routed_then(
    routed: Routed, names: Names
) -> None:
    """Its begin is part of it, its end is not."""
    end = 10 * BLOCK_OFFSETS
    routed.take(
        [ledger(999, 0, 5), ledger(1_000, 5, BLOCK_OFFSETS + 1), ledger(2_000, end, end + 1)]
    )
    assert routed.ranges(names) == {PLACE: (0, 2 * BLOCK_OFFSETS)}


def test_what_a_block_had_before_is_read_too(routed: Routed) -> None:
    """A frame of it may still wait somewhere: links are read from where the block began."""
    routed.take([ledger(700, 0, 5), ledger(1_500, 5, 9)])
    assert routed.began_ms() == 700


def test_where_ledgers_do_not_go_back_as_far_all_is_read(routed: Routed) -> None:
    routed.take([ledger(1_500, 5, 9)])
    assert routed.began_ms() == 0


def test_deliveries_of_other_messages_are_left_out(routed: Routed) -> None:
    """Those of a source that no ledger tells of are looked at: they may be nobody's."""
    block = BLOCK_OFFSETS
    routed.take([ledger(500, 0, block), ledger(1_500, block, block + 3)])
    strange = delivery(0, 0, SourceKey("ff", 0))
    rows = [delivery(0, 1), delivery(block, block + 2), delivery(5 * block, 5 * block), strange]
    assert routed.only(Batch(deliveries=rows)).deliveries == [rows[1], strange]


def test_nothing_of_it_where_nothing_was_routed_then(routed: Routed, names: Names) -> None:
    routed.take([ledger(500, 0, 5)])
    assert routed.ranges(names) == {}
    assert routed.only(Batch(deliveries=[delivery(0, 1)])).deliveries == []


@pytest.mark.parametrize(
    "row",
    [
        SmallRow(TopicPartition("mesh.a.ledger", 0), 0, "", b"garbage", 1_500),
        SmallRow(TopicPartition("mesh.a.ledger", 0), 0, "", None, 1_500),
        ledger(1_500, 0, 2**62),
        ledger(1_500, 7, 7),
        ledger(1_500, -9, 7),
        ledger(1_500, 0, 7, "elsewhere"),
        ledger(1_500, 0, 7, "mesh.a.to.b.g"),
    ],
)
def test_what_no_lane_has_written_tells_nothing(
    routed: Routed, names: Names, row: SmallRow
) -> None:
    routed.take([row])
    assert routed.ranges(names) == {}


def test_a_topic_that_was_made_again_counts_by_its_id(routed: Routed, names: Names) -> None:
    routed.take([ledger(1_500, 0, 7, id_=b"j" * 16)])
    assert routed.ranges(names) == {}
