"""Which messages a stretch of time holds, by what ledgers tell."""

from __future__ import annotations

import pytest

from mesh.model.state import Ledger, SourceRange
from mesh.wire.state import encode_ledger
from streaming.audits.names import Names
from streaming.audits.routed_blocks import LEDGERS_KEPT_MS, RoutedBlocks
from streaming.tables.digest import BLOCK_OFFSETS, NOTHING
from streaming.tables.rows import DeliveryRow, MicroBatch, SmallRow, SourceKey, TopicPartition

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
def routed() -> RoutedBlocks:
    return RoutedBlocks("mesh.", 1_000, 2_000)


def ledger(at_ms: int, first: int, end: int, topic: str = INGRESS, id_: bytes = ID) -> SmallRow:
    sources = [SourceRange(topic, id_, 1, first, end, end - first)]
    value = encode_ledger(Ledger(node="a", lane=0, lane_epoch=1, sources=sources))
    return SmallRow(TopicPartition("mesh.a.ledger", 0), 0, "", value, at_ms)


def is_delivered(routed: RoutedBlocks, names: Names, row: DeliveryRow) -> bool:
    return bool(routed.only(MicroBatch(deliveries=[row]), names).deliveries)


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
    routed: RoutedBlocks, names: Names
) -> None:
    """Its begin is part of it, its end is not."""
    end = 10 * BLOCK_OFFSETS
    routed.take(
        [ledger(999, 0, 5), ledger(1_000, 5, BLOCK_OFFSETS + 1), ledger(2_000, end, end + 1)]
    )
    assert routed.ranges(names) == {PLACE: (0, 2 * BLOCK_OFFSETS)}


def test_what_a_block_had_before_is_read_too(routed: RoutedBlocks) -> None:
    """A frame of it may still wait somewhere: links are read from where the block began."""
    routed.take([ledger(700, 0, 5), ledger(1_500, 5, 9)])
    assert routed.began_ms() == 700


def test_where_ledgers_do_not_go_back_as_far_all_is_read(routed: RoutedBlocks) -> None:
    routed.take([ledger(1_500, 5, 9)])
    assert routed.began_ms() == 0


def test_of_huge_ranges_no_number_is_gone_through(routed: RoutedBlocks) -> None:
    """Whoever writes ledger records may name any offset."""
    end = 2**62
    routed.take([ledger(1_500, 0, 5), ledger(1_500, end, end + 1)])
    assert routed.began_ms() == 0


def test_deliveries_of_other_messages_are_left_out(routed: RoutedBlocks, names: Names) -> None:
    """Those of a source that no ledger tells of are looked at: they may be nobody's."""
    block = BLOCK_OFFSETS
    routed.take([ledger(500, 0, block), ledger(1_500, block, block + 3)])
    strange = delivery(0, 0, SourceKey("ff", 0))
    rows = [delivery(0, 1), delivery(block, block + 2), delivery(5 * block, 5 * block), strange]
    assert routed.only(MicroBatch(deliveries=rows), names).deliveries == [rows[1], strange]


def test_nothing_of_it_where_nothing_was_routed_then(routed: RoutedBlocks, names: Names) -> None:
    routed.take([ledger(500, 0, 5)])
    assert routed.ranges(names) == {}
    assert not is_delivered(routed, names, delivery(0, 1))


def test_a_topic_whose_ledger_is_deleted_has_nothing_of_it(
    routed: RoutedBlocks, names: Names
) -> None:
    """It is there, so nobody has forged what was delivered of it."""
    assert not is_delivered(routed, names, delivery(0, 1))


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
    routed: RoutedBlocks, names: Names, row: SmallRow
) -> None:
    routed.take([row])
    assert routed.ranges(names) == {}


def test_a_topic_that_was_recreated_is_told_and_left_out(
    routed: RoutedBlocks, names: Names
) -> None:
    """So is what was delivered of it: nobody has forged it."""
    former = b"j" * 16
    routed.take([ledger(1_500, 0, 7, id_=former), ledger(1_500, 0, 7)])
    (text,) = routed.leave_out(names, {PLACE: 7})
    assert text == "mesh.a.in.g/1@0-4095: the topic was deleted, or recreated, since then"
    assert routed.ranges(names) == {PLACE: (0, BLOCK_OFFSETS)}
    assert not is_delivered(routed, names, delivery(0, 1, SourceKey(former.hex(), 1)))
    assert is_delivered(routed, names, delivery(0, 1))


@pytest.mark.parametrize("ends", [{}, {PLACE: BLOCK_OFFSETS}])
def test_a_log_that_does_not_go_as_far_is_told(
    routed: RoutedBlocks, names: Names, ends: dict[TopicPartition, int]
) -> None:
    routed.take([ledger(1_500, BLOCK_OFFSETS, BLOCK_OFFSETS + 7)])
    assert len(routed.leave_out(names, ends)) == 1
    assert routed.ranges(names) == {}


@pytest.mark.parametrize(
    ("beginning", "oldest_ms", "is_told"),
    [(5, 1_001, True), (5, 1_000, False), (0, 1_001, False)],
)
def test_a_ledger_that_begins_within_the_stretch_is_told(
    routed: RoutedBlocks, beginning: int, oldest_ms: int, is_told: bool
) -> None:
    row = ledger(oldest_ms, 0, 7)
    routed.take([row, ledger(1_900, 7, 9)])
    texts = routed.untold({row.place: beginning}, LEDGERS_KEPT_MS)
    since = "what was routed before 1970-01-01T00:00:01+00:00: mesh.a.ledger/0 does not go back"
    assert texts == ([f"{since} further"] if is_told else [])


def test_an_empty_ledger_tells_for_as_long_as_records_are_kept(routed: RoutedBlocks) -> None:
    """A partition for work that is rare has nothing left of it after a week."""
    place = TopicPartition("mesh.a.ledger", 1)
    assert routed.untold({place: 5}, LEDGERS_KEPT_MS + 1_000) == []
    assert len(routed.untold({place: 5}, LEDGERS_KEPT_MS + 1_001)) == 1
