"""How far direct copies go before a commit, and what a successor counts as lost. K18, DESIGN 5."""

from __future__ import annotations

from mesh.lane.batch import AHEAD_LEAST, RESERVED_MS
from mesh.lane.handover import count_unwritten, give_back, go_on_behind
from mesh.lane.resuming import go_on
from mesh.model.facts import SourceAt
from mesh.model.reasons import DropReason
from tests.unit.lane.steps import INGRESS_DIRECT, NOW_MS, TO_C, Alone, published, topic_id

AT = INGRESS_DIRECT
OUTBOX = TO_C.topic.removesuffix("g") + "d"


def ready(one: Alone) -> list[str]:
    """Return where copies may be written before the next commit."""
    return [topic for topic, _, _ in one.lane.direct.ready]


def read_at(**more: int) -> SourceAt:
    """Return the fact that the source was read up to offset 10."""
    return SourceAt(AT, topic_id(AT), 10, **more)


def test_copies_wait_for_the_commit_that_reserves_what_comes_next() -> None:
    """Before any position beyond them is committed a successor would send them again."""
    one = Alone()
    one.step(AT, published(0, "y", AT))
    assert ready(one) == []
    assert one.lane.open(NOW_MS).is_awaited
    one.commit()
    assert ready(one) == [OUTBOX]
    assert one.lane.progress.reserved[AT] == 1 + AHEAD_LEAST
    one.lane.direct.ready_sent()
    one.step(AT, published(1, "y", AT))
    assert ready(one) == [OUTBOX]
    assert not one.lane.open(NOW_MS).is_awaited


def test_copies_beyond_what_is_reserved_wait_and_so_do_those_behind_them() -> None:
    """Else they would overtake each other."""
    one = Alone()
    one.step(AT, published(0, "y", AT))
    one.commit()
    one.lane.direct.ready_sent()
    one.step(AT, published(1 + AHEAD_LEAST, "y", AT))
    one.step(AT, published(2 + AHEAD_LEAST, "y", AT))
    assert ready(one) == []
    assert len(one.lane.open(NOW_MS).direct) == 2


def test_a_reservation_ends_where_no_commit_has_told_for_long_whose_the_lane_is() -> None:
    one = Alone()
    one.step(AT, published(0, "y", AT))
    one.commit()
    one.lane.direct.ready_sent()
    one.lane.direct.expire(NOW_MS + RESERVED_MS)
    one.step(AT, published(1, "y", AT))
    assert ready(one) == [OUTBOX]
    one.lane.direct.expire(NOW_MS + RESERVED_MS + 1)
    one.step(AT, published(2, "y", AT))
    assert ready(one) == [OUTBOX]


def test_who_takes_a_lane_goes_on_behind_what_was_reserved_and_counts_it() -> None:
    """It may have gone out: to send it again would double it. What came later has not."""
    one = Alone().recovered(read_at(ahead=16))
    go_on(one.lane, one.topic(AT), topic_id(AT), {AT: (0, 14)}, NOW_MS)
    assert one.lane.position(AT) == 14
    assert one.dropped == {DropReason.TAKEOVER: 4}
    later = Alone().recovered(read_at(ahead=16))
    go_on(later.lane, later.topic(AT), topic_id(AT), {AT: (0, 99)}, NOW_MS)
    assert later.lane.position(AT) == 26


def test_who_takes_its_own_lane_again_goes_on_where_its_copies_ended() -> None:
    one = Alone().recovered(read_at(ahead=16))
    go_on_behind(one.lane, {AT: 13}, NOW_MS)
    go_on(one.lane, one.topic(AT), topic_id(AT), {AT: (0, 99)}, NOW_MS)
    assert one.lane.position(AT) == 13
    assert one.dropped == {}
    assert [(fact.next, fact.ahead) for fact in one.facts_of(SourceAt)] == [(13, 0)]


def test_what_a_former_owner_had_not_written_is_counted_once_and_its_reservation_stays() -> None:
    one = Alone().recovered(read_at(ahead=16, behind=3))
    count_unwritten(one.lane, NOW_MS)
    count_unwritten(one.lane, NOW_MS)
    assert one.dropped == {DropReason.UNWRITTEN: 3}
    assert [(fact.ahead, fact.behind) for fact in one.facts_of(SourceAt)] == [(16, 0)]


def test_a_lane_that_is_handed_back_leaves_nothing_reserved() -> None:
    """Its next owner begins at its very position."""
    one = Alone()
    one.step(AT, published(0, "y", AT))
    one.commit()
    one.lane.direct.ready_sent()
    one.lane.direct.all_written()
    give_back(one.lane, NOW_MS)
    one.step(AT, published(1, "y", AT))
    one.commit()
    assert one.lane.progress.next[AT] == 2
    assert AT not in one.lane.progress.reserved


def test_a_position_tells_how_many_copies_before_it_may_not_be_in_kafka() -> None:
    """They wait for the very commit that tells it, and its owner may die before they go."""
    one = Alone()
    one.step(AT, published(0, "y", AT), published(1, "y", AT))
    one.commit()
    assert one.lane.progress.unwritten == {AT: 2}
    one.lane.direct.ready_sent()
    one.lane.direct.all_written()
    one.step(AT, published(2, "y", AT))
    one.lane.direct.ready_sent()
    one.commit()
    assert one.lane.progress.unwritten == {AT: 1}
