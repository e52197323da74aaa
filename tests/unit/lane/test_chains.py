"""What a lane makes of frames by their chain: taken, repeated, or not before what is missing. K11."""

from __future__ import annotations

import pytest

from mesh.errors import UnknownVersionError
from mesh.lane.broken_chains import AGAIN_MS, REPAIR_MS
from mesh.lane.faults import REPAIRS_MAX, ask_due
from mesh.lane.target_holds import hold
from mesh.model.facts import Accepted, Gap, PartFrame, PartlyTaken
from mesh.model.frames import FrameFlags
from mesh.model.reasons import DropReason
from mesh.transport.memory_log import MemoryRecord
from mesh.wire.announcements import decode_announcement
from tests.unit.lane.steps import (
    DEAD_LETTERS,
    ENDPOINT,
    FROM_A,
    FROM_A_DIRECT,
    NOW_MS,
    OF_A,
    TO_A,
    TO_C,
    Alone,
    frame,
)

REPAIR = FrameFlags.REPAIR
LATER_MS = NOW_MS + REPAIR_MS.most


def accepted(one: Alone) -> int:
    """Return up to where the chain was accepted."""
    return one.lane.progress.accepted.get((FROM_A, OF_A), -1)


def marks(one: Alone) -> list[PartFrame]:
    """Return the frames that are recorded as not taken whole."""
    return [mark for fact in one.facts_of(PartlyTaken) for mark in fact.frames]


def test_a_frame_in_its_place_is_handed_on_delivered_and_accepted() -> None:
    """On the next link it has a chain of its own, by the offsets of the outbox that it came by."""
    one = Alone()
    output = one.step(FROM_A, frame(0, -1, 4, 5), frame(1, 5, 6, 6))
    assert (output.taken, output.is_paused) == (2, False)
    assert output.rows is one.lane.open(NOW_MS).rows
    assert one.chains(TO_C) == [(-1, 0, 0), (0, 1, 1)]
    assert len(one.rows(ENDPOINT)) == 3
    assert one.rows(TO_A) == []
    assert [fact.last for fact in one.facts_of(Accepted)] == [6]
    assert (marks(one), one.dropped) == ([], {})


def test_a_repeated_frame_is_taken_once_and_marked_for_who_reads_again() -> None:
    one = Alone()
    one.step(FROM_A, frame(0, -1, 4, 5), frame(1, -1, 4, 5))
    assert one.chains(TO_C) == [(-1, 0, 0)]
    assert one.dropped == {DropReason.DUPLICATE: 2}
    assert marks(one) == [PartFrame(1, -1)]
    assert accepted(one) == 5


def test_of_a_frame_that_overlaps_what_came_only_the_rest_is_taken() -> None:
    """A repair may cut frames elsewhere than they were cut at first."""
    one = Alone()
    one.step(FROM_A, frame(0, -1, 4, 5), frame(1, -1, 4, 8))
    assert len(one.rows(ENDPOINT)) == 5
    assert one.dropped == {DropReason.DUPLICATE: 2}
    assert marks(one) == [PartFrame(1, 5)]
    assert accepted(one) == 8


def test_behind_a_hole_nothing_is_taken_and_its_repair_is_asked_for_once() -> None:
    one = Alone()
    one.step(FROM_A, frame(0, -1, 4, 5), frame(1, 7, 8, 8), frame(2, 8, 9, 9))
    assert one.chains(TO_C) == [(-1, 0, 0)]
    assert one.dropped == {DropReason.GAP: 1, DropReason.WAITING: 1}
    assert one.facts_of(Gap) == [Gap(FROM_A, OF_A, 5, 0, is_open=True)]
    assert accepted(one) == 5


def test_a_repair_closes_the_hole_and_its_end_tells_how_far_it_went() -> None:
    """What waited came with it: it is repeated if it comes by itself too."""
    one = Alone()
    one.step(FROM_A, frame(0, -1, 4, 5), frame(1, 7, 8, 8))
    one.step(FROM_A, frame(2, 5, 6, 7, flags=REPAIR), frame(3, 7, 8, 8, flags=REPAIR))
    assert one.facts_of(Gap)[-1].is_open
    one.step(FROM_A, frame(4, 8, 8, 8, flags=REPAIR, is_empty=True))
    assert one.facts_of(Gap) == [Gap(FROM_A, OF_A, 5, 0, is_open=False)]
    assert one.lane.progress.gaps == {}
    assert one.chains(TO_C) == [(-1, 0, 0), (0, 2, 2), (2, 3, 3)]
    assert accepted(one) == 8


def test_a_repair_that_brought_more_than_was_sent_before_takes_nothing_back() -> None:
    """Its end may name a position before what it has brought."""
    one = Alone()
    one.step(FROM_A, frame(0, 7, 8, 8))
    one.step(FROM_A, frame(1, -1, 4, 12, flags=REPAIR))
    one.step(FROM_A, frame(2, 8, 8, 8, flags=REPAIR, is_empty=True))
    assert accepted(one) == 12


def test_a_repair_that_ends_before_the_hole_is_closed_is_asked_for_again() -> None:
    one = Alone()
    one.step(FROM_A, frame(0, -1, 4, 5), frame(1, 7, 8, 8))
    one.step(FROM_A, frame(2, 8, 8, 8, flags=REPAIR, is_empty=True))
    assert one.facts_of(Gap) == [Gap(FROM_A, OF_A, 5, 1, is_open=True)]


def test_a_repair_of_which_nobody_hears_is_asked_for_again_after_a_while() -> None:
    """No later frame of the chain may ever come."""
    one = Alone()
    one.step(FROM_A, frame(0, 7, 8, 8))
    ask_due(one.lane, NOW_MS + AGAIN_MS - 1)
    assert one.facts_of(Gap)[0].attempts == 0
    ask_due(one.lane, NOW_MS + AGAIN_MS)
    assert one.facts_of(Gap)[0].attempts == 1
    assert one.lane.open(NOW_MS).is_awaited


def garbage(offset: int) -> MemoryRecord:
    """Return a frame that nobody can read."""
    return MemoryRecord(FROM_A.topic, 0, offset, b"garbage", b"", None, (1, NOW_MS))


def asked_in_vain(one: Alone) -> None:
    """Have what is missing behind 5 come as garbage in each repair, until the last is asked for."""
    one.step(FROM_A, frame(0, -1, 4, 5), frame(1, 8, 9, 9))
    for number in range(REPAIRS_MAX - 1):
        at = 2 + 2 * number
        end = frame(at + 1, 9, 9, 9, flags=REPAIR, is_empty=True)
        one.step(FROM_A, garbage(at), end)


def lost(one: Alone) -> list[tuple[int, int]]:
    """Return first and last of each range that the endpoint is told of as lost."""
    headers = [row[3] for row in one.rows(ENDPOINT) if row[0] is None]
    told = [decode_announcement(each or ()) for each in headers]
    return [(loss.first, loss.last or -1) for loss in told]


def test_what_no_repair_brings_in_a_form_that_can_be_read_is_announced_and_no_more() -> None:
    """What is not of a repair waits: what it lacks may be readable. Spec: K20, DESIGN 4 rule 4."""
    one = Alone()
    asked_in_vain(one)
    one.step(FROM_A, garbage(20))
    ask_due(one.lane, LATER_MS)
    one.step(FROM_A, frame(21, 9, 10, 10))
    assert (accepted(one), lost(one)) == (5, [])
    one.step(FROM_A, garbage(22), frame(23, 6, 7, 8, flags=REPAIR))
    one.step(FROM_A, frame(24, 8, 9, 9, flags=REPAIR))
    assert (accepted(one), lost(one)) == (9, [(6, 6)])
    one.step(FROM_A, frame(25, 9, 9, 9, flags=REPAIR, is_empty=True))
    assert one.lane.progress.gaps == {}


def test_a_repair_of_which_nothing_else_can_be_read_tells_how_much_is_lost() -> None:
    one = Alone()
    asked_in_vain(one)
    one.step(FROM_A, garbage(20), frame(21, 9, 9, 9, flags=REPAIR, is_empty=True))
    assert (accepted(one), lost(one)) == (9, [(6, 9)])
    assert one.lane.progress.gaps == {}


def test_what_a_repair_lacks_behind_what_nobody_can_read_is_asked_for_again() -> None:
    """It was lost on its way, and comes with the next one."""
    one = Alone()
    asked_in_vain(one)
    one.step(FROM_A, garbage(20), frame(21, 6, 7, 7, flags=REPAIR))
    one.step(FROM_A, frame(22, 8, 9, 9, flags=REPAIR))
    assert (accepted(one), lost(one)) == (7, [(6, 6)])


def test_a_hole_that_comes_later_is_asked_for_like_the_first() -> None:
    """Repairs of an earlier one were in vain, until nobody wanted any more what it lacked."""
    one = Alone()
    asked_in_vain(one)
    one.step(FROM_A, garbage(20))
    ask_due(one.lane, LATER_MS)
    one.step(FROM_A, frame(21, 5, 9, 9, flags=REPAIR, is_empty=True))
    one.step(FROM_A, frame(22, 11, 12, 12))
    assert (accepted(one), lost(one)) == (9, [])
    assert one.facts_of(Gap) == [Gap(FROM_A, OF_A, 9, 0, is_open=True)]


def test_nothing_is_announced_so_while_a_target_is_left_out() -> None:
    """Who catches it up judges no chains, and would not announce it there."""
    one = Alone()
    one.read(FROM_A)
    asked_in_vain(one)
    hold(one.lane, TO_C.topic, NOW_MS)
    one.step(FROM_A, garbage(20), frame(21, 6, 7, 8, flags=REPAIR))
    one.step(FROM_A, frame(22, 9, 9, 9, flags=REPAIR, is_empty=True))
    assert (accepted(one), lost(one)) == (5, [])


def test_direct_frames_are_taken_whatever_is_missing_before_them() -> None:
    one = Alone()
    some = [frame(0, -1, 4, 5, at=FROM_A_DIRECT), frame(1, 7, 8, 8, at=FROM_A_DIRECT)]
    one.step(FROM_A_DIRECT, *some)
    assert (one.dropped, one.facts_of(Gap)) == ({}, [])
    assert one.lane.progress.accepted[FROM_A_DIRECT, OF_A] == 8


def test_direct_frames_of_a_lane_that_was_taken_since_are_dropped() -> None:
    """Its successor has begun anew behind them. Spec: K18."""
    one = Alone()
    later = frame(0, -1, 4, 4, at=FROM_A_DIRECT, epoch=3)
    one.step(FROM_A_DIRECT, later, frame(1, 4, 5, 6, at=FROM_A_DIRECT, epoch=2))
    assert one.dropped == {DropReason.STALE_EPOCH: 2}
    assert one.lane.progress.accepted[FROM_A_DIRECT, OF_A] == 4


def test_what_somebody_else_writes_to_an_outbox_is_no_part_of_its_chain() -> None:
    one = Alone()
    one.step(FROM_A, frame(0, -1, 4, 5, path=("a", "z")), frame(1, -1, 4, 5))
    assert one.dropped[DropReason.SENDER] == 1
    assert len(one.rows(DEAD_LETTERS)) == 1
    assert one.chains(TO_C) == [(-1, 1, 1)]


def test_what_went_round_is_a_dead_letter_and_its_chain_goes_on() -> None:
    """Else all that follows would wait for it."""
    one = Alone()
    one.step(FROM_A, frame(0, -1, 4, 5, path=("b", "a")), frame(1, 5, 6, 6))
    assert one.dropped == {DropReason.LOOP_TRACE: 1}
    assert one.chains(TO_C) == [(-1, 1, 1)]
    assert accepted(one) == 6


def test_what_has_gone_past_more_nodes_than_there_are_is_a_dead_letter() -> None:
    """Of nodes that were removed since, each counts as one more that there may be. Spec: R10."""
    one = Alone()
    nodes = len(one.lane.topology.nodes)
    removed = tuple(f"gone-{number}" for number in range(nodes))
    one.step(FROM_A, frame(0, -1, 4, 5, path=(*removed, "a")))
    assert one.dropped == {}
    one.step(FROM_A, frame(1, 5, 6, 6, path=(*["c"] * nodes, "a")), frame(2, 6, 7, 7))
    assert one.dropped == {DropReason.LOOP_HOPS: 1}
    assert len(one.rows(DEAD_LETTERS)) == 1
    assert accepted(one) == 7


def test_garbage_is_a_dead_letter_and_the_link_goes_on() -> None:
    one = Alone()
    output = one.step(FROM_A, garbage(0), frame(1, -1, 4, 4))
    assert output.taken == 2
    assert one.dropped == {DropReason.CODEC: 1}
    assert marks(one) == [PartFrame(0, -1)]
    assert one.chains(TO_C) == [(-1, 1, 1)]


def test_before_a_frame_of_a_later_version_the_lane_stands_still() -> None:
    """It is not the record's fault: to read on would lose it. Spec: K10."""
    one = Alone()
    known = frame(0, -1, 4, 4)
    later = bytearray(frame(1, 4, 5, 5).key() or b"")
    later[2] += 1
    record = MemoryRecord(FROM_A.topic, 0, 1, bytes(later), b"", None, (1, NOW_MS))
    with pytest.raises(UnknownVersionError):
        one.step(FROM_A, known, record)
    assert one.lane.position(FROM_A) == 1
