"""What a consumer remembers of a partition survives in the group's remark. Spec: DESIGN 6."""

from __future__ import annotations

import random

import pytest

from mesh.core.redelivery import WINDOW, Share

REMARK_MAX = 4_096
"""What stock brokers keep beside an offset."""


def test_what_was_handed_out_counts_for_whoever_comes_next() -> None:
    """A crash over a message leaves the count behind."""
    share = Share(5, 5)
    assert share.times(5) == 0
    assert share.hand_out(5) == 1
    heir = Share.parse(share.base, share.remark)
    assert (heir.times(5), heir.times(6)) == (1, 0)
    assert heir.hand_out(5) == 2
    third = Share.parse(heir.base, heir.remark)
    assert third.times(5) == 2


def test_what_nobody_has_seen_does_not_count() -> None:
    """Handed out and not committed to the group: the next member hands it out as before."""
    share = Share(5, 5)
    for offset in (5, 6):
        share.hand_out(offset)
    share.hand_out(6)
    share.take_back(5)
    share.take_back(6)
    heir = Share.parse(share.base, share.remark)
    assert (heir.times(5), heir.times(6)) == (0, 1)
    assert [(heir.hand_out(5), heir.hand_out(6))] == [(1, 2)]
    assert Share.parse(heir.base, heir.remark).times(5) == 1


def test_what_is_done_beyond_an_open_one_stays_done() -> None:
    """The group's offset waits for the oldest open message; the others do not come again."""
    share = Share(0, 0)
    for offset in range(4):
        share.hand_out(offset)
    share.finish(1, [0, 2, 3], 4)
    share.finish(2, [0, 3], 4)
    assert share.base == 0
    heir = Share.parse(share.base, share.remark)
    assert [heir.is_done(offset) for offset in range(5)] == [False, True, True, False, False]
    heir.finish(0, [3], 4)
    assert heir.base == 3
    heir.finish(3, [], 7)
    assert heir.base == 7, "markers behind the last record are passed as well"


@pytest.mark.parametrize(
    "remark",
    [
        "",
        "of a plain consumer",
        "2;1;;",
        "1;x;;",
        "1;1;3-;a",
        "1;1;-3;",
        "1;-1;;",
        "1;1;;1:-2",
        "1;0;0-999999999999;",
        "1;99999999999999999999;;",
        f"1;{'9' * 4000};;",
        "1;0;;0:99999999999",
        "1;\u0661;;",
        "1;0;2-1-0;",
    ],
)
def test_a_remark_of_other_making_is_as_good_as_none(remark: str) -> None:
    """Plain Kafka consumers of the group write none, and others what they like."""
    share = Share.parse(7, remark)
    assert (share.base, share.begun, share.times(7), share.is_done(8)) == (7, 7, 0, False)


def test_what_is_no_message_far_ahead_takes_no_memory_from_a_queue() -> None:
    """A stranger's record behind an open message: what is done in between stays so."""
    share = Share(0, 0)
    for offset in (0, 1):
        share.hand_out(offset)
    share.hand_out(0)
    share.finish(1, [0], 2)
    for offset in range(2, 10 * WINDOW):
        share.finish(offset, [0], offset + 1)
    heir = Share.parse(share.base, share.remark)
    assert (heir.times(0), heir.is_done(1), heir.is_done(WINDOW - 1)) == (2, True, True)
    assert len(share._done) < WINDOW
    share.finish(0, [], 10 * WINDOW)
    assert share.base == 10 * WINDOW, "once all before it is done it is passed as well"


@pytest.mark.parametrize("seed", range(20))
def test_the_remark_of_a_full_window_fits_and_tells_all(seed: int) -> None:
    """Whatever is open and however often it was handed out."""
    draw = random.Random(seed)
    base = draw.choice([0, 12, 10**12])
    share = Share(base, base)
    left = [base + step for step in range(WINDOW)]
    for offset in left:
        for _ in range(draw.choice([1, 1, 2, 1_000])):
            share.hand_out(offset)
    for offset in [one for one in left[1:] if draw.random() < 0.5]:
        left.remove(offset)
        share.finish(offset, left, base + WINDOW)
    assert not share.has_room(base + WINDOW)
    assert len(share.remark.encode()) <= REMARK_MAX
    heir = Share.parse(share.base, share.remark)
    offsets = range(base, base + WINDOW)
    assert [heir.is_done(one) for one in offsets] == [share.is_done(one) for one in offsets]
    assert [heir.times(one) for one in left] == [share.times(one) for one in left]
    assert heir.remark == share.remark
