"""Where a lane goes on in a log that is not what it was: at a stop, or behind what it lost. R6."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.lane.accepted_losses import accept_loss
from mesh.lane.resuming import go_on, reached, stop_of
from mesh.lane.truncations import accepted_truncations
from mesh.model.control import Stop, StopReason
from mesh.model.facts import (
    EraBegan,
    ErasBegun,
    Fact,
    Halted,
    PartFrame,
    PartlyTaken,
    SourceAt,
    Truncation,
    Truncations,
)
from mesh.model.frames import Era, FrameKind, position_in_chain
from mesh.model.reasons import DropReason
from mesh.transport.port import TopicPartition
from mesh.wire.announcements import decode_announcement
from tests.said import noted
from tests.unit.lane.steps import (
    ENDPOINT,
    FROM_A,
    FROM_A_DIRECT,
    NOW_MS,
    TO_A,
    TO_C,
    Alone,
    frame,
    topic_id,
)

ANOTHER = b"recreated......."
READ = SourceAt(FROM_A, topic_id(FROM_A), 10)


def found(
    one: Alone, start: int, end: int, *, at: TopicPartition = FROM_A, identity: bytes = b""
) -> list[Stop]:
    """Have the lane find a log that begins and ends there; return what stops were recorded."""
    places = go_on(one.lane, one.topic(at), identity or topic_id(at), {at: (start, end)}, NOW_MS)
    stops = [fact.stop for fact in one.facts_of(Halted)]
    assert (places == [at]) == (stops == [])
    return stops


@pytest.mark.parametrize(
    ("start", "end", "reason", "first", "behind"),
    [
        (0, 9, StopReason.TRUNCATED, 9, 10),
        (11, 20, StopReason.RETENTION, 10, 11),
    ],
)
def test_a_log_in_which_the_position_is_not_stops_its_source(
    start: int, end: int, reason: StopReason, first: int, behind: int
) -> None:
    one = Alone().recovered(READ)
    stop = stop_of(FROM_A, topic_id(FROM_A), reason, first, behind)
    assert found(one, start, end) == [stop]
    assert reached(one.lane, FROM_A) == first


def test_a_log_in_which_the_position_is_goes_on_there() -> None:
    """Its first and its last offset are inside."""
    for start, end in ((10, 20), (0, 10)):
        assert found(Alone().recovered(READ), start, end) == []


def test_what_was_deleted_before_anything_was_read_is_a_loss_like_all_else() -> None:
    stop = stop_of(FROM_A, topic_id(FROM_A), StopReason.RETENTION, 0, 3)
    assert found(Alone(), 3, 9) == [stop]


def test_a_recreated_topic_stops_its_source_unless_its_link_was_removed() -> None:
    """What is there when a link comes back may be new, and lacks nothing."""
    stop = stop_of(FROM_A, topic_id(FROM_A), StopReason.RECREATED, 10)
    assert found(Alone().recovered(READ), 0, 20, identity=ANOTHER) == [stop]
    unlinked = Alone().recovered(replace(READ, is_unlinked=True, kafka="k"))
    assert found(unlinked, 0, 20, identity=ANOTHER) == []
    assert unlinked.lane.position(FROM_A) < 0
    place = {"topic": FROM_A.topic, "partition": FROM_A.partition}
    told = noted(unlinked.lane.log.take()).of("source.recreated")
    assert told == [{"log_level": "warning", **place}]


def accepted(
    stop: Stop, start: int = 0, *kept: Fact, identity: bytes = b"", end: int | None = None
) -> Alone:
    """Return the lane after an operator accepted a stop that it had recorded."""
    one = Alone().recovered(READ, *kept, Halted(stop))
    topic = one.topic(FROM_A)
    accept_loss(one.lane, topic, identity or topic_id(FROM_A), stop, (start, end), NOW_MS)
    return one


RETENTION = stop_of(FROM_A, topic_id(FROM_A), StopReason.RETENTION, 10, 12)
TRUNCATED = stop_of(FROM_A, topic_id(FROM_A), StopReason.TRUNCATED, 7, 10)
RECREATED = stop_of(FROM_A, topic_id(FROM_A), StopReason.RECREATED, 10)
VERSION = stop_of(FROM_A, topic_id(FROM_A), StopReason.VERSION, 10, 11)


def test_a_loss_is_announced_to_everybody_before_its_source_goes_on() -> None:
    """Over each link but the one it came by, wanted or not, and at each guaranteed endpoint."""
    one = accepted(RETENTION)
    assert one.kinds(TO_C) == [FrameKind.GAP]
    assert one.rows(TO_A) == []
    assert [row[0] for row in one.rows(ENDPOINT)] == [None]
    assert one.lane.position(FROM_A) == 12
    assert one.dropped == {DropReason.GAP_ACCEPTED: 2}
    assert one.lane.progress.stopped == {}
    stop = {"lane": 0, "reason": StopReason.RETENTION, "range": RETENTION.range}
    told = noted(one.lane.log.take()).of("source.resumed")
    assert told == [{"log_level": "warning", **stop}]


def test_if_more_is_lost_than_was_accepted_the_source_stays_where_it_is() -> None:
    one = accepted(RETENTION, 15)
    assert [fact.stop for fact in one.facts_of(Halted)] == [replace(RETENTION, next=15)]
    assert (one.rows(TO_C), one.rows(ENDPOINT)) == ([], [])
    assert one.lane.position(FROM_A) == 10


@pytest.mark.parametrize(
    ("stop", "end", "first"), [(TRUNCATED, 5, 5), (RETENTION, 9, 9), (VERSION, 8, 8)]
)
def test_a_log_cut_off_again_is_another_loss_than_the_one_accepted(
    stop: Stop, end: int, first: int
) -> None:
    """What stands behind the new end was never read, wherever the accepted range goes on."""
    one = accepted(stop, end=end)
    told = [fact.stop for fact in one.facts_of(Halted)]
    assert told == [stop_of(FROM_A, topic_id(FROM_A), StopReason.TRUNCATED, first, 10)]
    assert (one.rows(TO_C), one.rows(ENDPOINT)) == ([], [])


def test_where_the_record_is_gone_that_nobody_could_read_nothing_is_lost() -> None:
    """Another one may stand there, which is read."""
    one = accepted(VERSION, end=10)
    assert [fact.is_over for fact in one.facts_of(Halted)] == [True]
    assert (one.rows(TO_C), one.lane.position(FROM_A)) == ([], 10)


@pytest.mark.parametrize("stop", [TRUNCATED, RETENTION, VERSION])
def test_by_which_leader_was_read_is_known_behind_a_loss_as_well(stop: Stop) -> None:
    """Else the next loss would not show, if the log grows beyond it."""
    one = accepted(stop, 0, replace(READ, leader_epoch=4), end=11)
    assert one.lane.leader_epoch(FROM_A) == 4


@pytest.mark.parametrize(("stop", "first"), [(TRUNCATED, 7), (RECREATED, 0)])
def test_what_gets_offsets_that_were_used_is_of_the_era_in_which_it_is_taken(
    stop: Stop, first: int
) -> None:
    """As of an earlier one, it would cross no link that was made since. Spec: K10."""
    former = Era(b"another.", 5)
    kept = ErasBegun(FROM_A, 10, (EraBegan(0, former), EraBegan(9, former)))
    one = accepted(stop, 0, kept)
    [told] = one.facts_of(ErasBegun)
    before = () if first == 0 else (EraBegan(0, former),)
    assert told.eras == (*before, EraBegan(first, one.learner.era))


def test_what_was_accepted_of_a_topic_is_good_for_no_other_one() -> None:
    one = accepted(RETENTION, identity=ANOTHER)
    assert [fact.stop.reason for fact in one.facts_of(Halted)] == [StopReason.RECREATED]
    assert one.rows(TO_C) == []


def test_offsets_that_come_again_are_of_another_generation() -> None:
    """The chain goes on with positions that are higher. Spec: K9, K11."""
    marks = PartlyTaken(FROM_A, topic_id(FROM_A), 0, (PartFrame(5, -1), PartFrame(8, -1)))
    one = accepted(TRUNCATED, 0, marks)
    source = one.read(FROM_A)
    assert (source.generation, one.lane.position(FROM_A)) == (1, 7)
    assert accepted_truncations(one.lane, source) == (Truncation(1, 7, 10),)
    [kept] = one.facts_of(PartlyTaken)
    assert kept.frames == (PartFrame(5, -1),)
    one.step(FROM_A, frame(7, -1, 4, 4))
    [gap, data] = one.chains(TO_C)
    assert data == (gap[2], position_in_chain(1, 7), position_in_chain(1, 7))


def test_what_is_lost_of_two_generations_is_announced_by_the_names_of_both() -> None:
    """The same offsets were read twice: which of them are lost the generation alone says. K9."""
    kept = Truncations(FROM_A, topic_id(FROM_A), [Truncation(1, 8, 9)])
    one = accepted(TRUNCATED, 0, replace(READ, generation=1), kept)
    told = [decode_announcement(row[3]) for row in one.rows(ENDPOINT)]
    assert [(loss.generation, loss.first, loss.last) for loss in told] == [(0, 7, 7), (1, 8, 9)]
    first, second = one.chains(TO_C)
    assert (second[0], second[2]) == (first[2], first[2])
    assert accepted_truncations(one.lane, one.read(FROM_A))[1:] == (Truncation(2, 7, 10),)


def test_a_direct_source_goes_on_by_itself_and_tells_what_is_lost() -> None:
    one = Alone().recovered(SourceAt(FROM_A_DIRECT, topic_id(FROM_A_DIRECT), 10))
    assert found(one, 0, 7, at=FROM_A_DIRECT) == []
    outbox = TopicPartition("mesh.b.to.c.d", 0)
    assert (one.lane.position(FROM_A_DIRECT), one.lane.generation(FROM_A_DIRECT)) == (7, 1)
    place = {"topic": FROM_A_DIRECT.topic, "partition": FROM_A_DIRECT.partition, "end": 7}
    told = noted(one.lane.log.take()).of("direct.truncated")
    assert told == [{"log_level": "warning", **place}]
    assert one.rows(ENDPOINT) == []
    assert [topic for topic, _, _ in one.lane.direct.ready] == [outbox.topic]
    later = Alone().recovered(SourceAt(FROM_A_DIRECT, topic_id(FROM_A_DIRECT), 10))
    assert found(later, 12, 20, at=FROM_A_DIRECT) == []
    assert later.dropped == {DropReason.RETENTION: 2}
