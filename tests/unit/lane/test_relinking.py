"""What a lane ends and begins when links of its node are removed and added. Spec: K12, K28."""

from __future__ import annotations

from mesh.core.holds import ChainKey
from mesh.lane.faults import keep_stop
from mesh.lane.progress import LeftIn
from mesh.lane.relinking import begin_links, end_removed, relink_lane
from mesh.lane.resuming import stop_of
from mesh.lane.target_holds import hold
from mesh.model.control import StopReason
from mesh.model.effects import Relinked
from mesh.model.facts import ENDED, UNLINKED, Gap, Halted, Held, Sent, SourceAt
from tests.said import noted
from tests.unit.lane.steps import FROM_A, FROM_C, NOW_MS, OF_A, TO_C, Alone, frame, topic_id

GONE = {FROM_C.topic: "id of k"}


def key_of(one: Alone) -> ChainKey:
    """Return under what it is kept how far a's outbox was sent to c."""
    return (TO_C, one.lane.sources[FROM_A].identity)


def without_c(one: Alone) -> None:
    """Have the link to c be removed, and the lane follow."""
    one.learner.links = [link for link in one.learner.links if link.neighbour != "c"]
    relink_lane(one.lane, Relinked(one.lane.topology, ("c",), ()), GONE, NOW_MS)


def test_the_chain_of_a_link_that_goes_is_kept_and_marked() -> None:
    """One that comes back continues it, with nothing of what went other ways meanwhile."""
    one = Alone()
    one.step(FROM_A, frame(0, -1, 4, 4))
    one.commit()
    without_c(one)
    [sent] = one.facts_of(Sent)
    assert (sent.at, sent.last, sent.since) == (TO_C, 0, UNLINKED)


def test_what_movers_have_sent_is_not_marked_by_the_lane() -> None:
    """They keep it themselves: kept here too it would lag behind."""
    one = Alone()
    one.step(FROM_A, frame(0, -1, 4, 4))
    one.lane.hear_movers({(TO_C, OF_A): 3})
    one.commit()
    without_c(one)
    assert [fact.source for fact in one.facts_of(Sent)] == [one.lane.sources[FROM_A].identity]


def test_a_link_that_is_added_carries_what_is_read_from_then_on() -> None:
    """A repair sends nothing before that: it went other ways."""
    one = Alone()
    one.step(FROM_A, frame(0, -1, 4, 4), frame(1, 4, 5, 5))
    one.commit()
    relink_lane(one.lane, Relinked(one.lane.topology, ("c",), ("c",)), GONE, NOW_MS)
    assert one.lane.progress.since[key_of(one)] == 2
    assert one.lane.progress.sent[key_of(one)] == 1


def test_a_link_that_stays_carries_what_it_carried() -> None:
    """Unless a change made it anew since the lane sent over it: then it begins anew too."""
    one = Alone()
    one.step(FROM_A, frame(0, -1, 4, 4))
    source = one.lane.sources[FROM_A]
    begin_links(one.lane, source, ["c"], NOW_MS)
    assert one.lane.progress.since[key_of(one)] == 0
    one.lane.ages.numbers[TO_C.topic] = 5
    begin_links(one.lane, source, ["c"], NOW_MS)
    assert one.lane.progress.since[key_of(one)] == 1
    assert one.lane.progress.links[key_of(one)] == 5


def test_a_target_whose_link_goes_is_left_out_no_longer() -> None:
    one = Alone()
    one.step(FROM_A, frame(0, -1, 4, 4))
    hold(one.lane, TO_C.topic, NOW_MS)
    one.commit()
    without_c(one)
    assert [fact.next for fact in one.facts_of(Held)] == [ENDED]
    assert not one.lane.holds_any
    told = noted(one.lane.log.take()).of("target.hold_ended")
    assert told == [{"log_level": "warning", "target": TO_C.topic, "lane": 0}]


def test_an_outbox_that_is_read_no_more_stops_nobody_and_lacks_nothing() -> None:
    """Its position stays, and what is there when it comes back may be another topic."""
    kept = SourceAt(FROM_C, topic_id(FROM_C), 6)
    one = Alone().recovered(kept, Gap(FROM_C, OF_A, 3, 0, is_open=True))
    stop = stop_of(FROM_C, topic_id(FROM_C), StopReason.RETENTION, 6, 8)
    keep_stop(one.lane, stop, NOW_MS)
    without_c(one)
    assert [fact.is_over for fact in one.facts_of(Halted)] == [True]
    assert [fact.is_open for fact in one.facts_of(Gap)] == [False]
    told = noted(one.lane.log.take()).of("source.stop_ended")
    assert told == [{"log_level": "warning", "lane": 0, "range": stop.range}]
    [left] = one.facts_of(SourceAt)
    assert (left.next, left.is_unlinked) == (6, True)
    assert (left.kafka, left.cluster_id) == ("k", "id of k")


def test_who_takes_a_lane_ends_what_its_former_owner_had_of_a_link_that_is_gone() -> None:
    former = Alone()
    former.step(FROM_A, frame(0, -1, 4, 4))
    hold(former.lane, TO_C.topic, NOW_MS)
    one = former.recovered(*former.facts, SourceAt(FROM_C, topic_id(FROM_C), 6))
    one.learner.links = [link for link in one.learner.links if link.neighbour != "c"]
    end_removed(one.lane, [FROM_A.topic], NOW_MS)
    assert not one.lane.holds_any
    [told] = noted(one.lane.log.take()).of("target.hold_ended")
    assert told["target"] == TO_C.topic
    assert one.lane.progress.unlinked == {FROM_C: LeftIn("k")}
