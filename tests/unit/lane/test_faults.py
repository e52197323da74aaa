"""What a lane that was just taken tells its node of stops and broken chains. Spec: K11, K12, R6."""

from __future__ import annotations

from mesh.lane.broken_chains import AGAIN_MS
from mesh.lane.faults import ask_due, inputs_of, keep_stop, lift_stop, recovered
from mesh.lane.resuming import stop_of
from mesh.model.control import RepairRequest, StopReason
from mesh.model.facts import Gap, Halted
from mesh.model.inputs import GapFound, GapMended, Input, SourceResumed, SourceStopped
from tests.unit.lane.steps import FROM_A, FROM_C, INGRESS, NOW_MS, OF_A, Alone, topic_id

NEIGHBOURS = {FROM_A.topic: "a", FROM_C.topic: "c"}
RETENTION = stop_of(FROM_A, topic_id(FROM_A), StopReason.RETENTION, 4, 6)
VERSION = stop_of(FROM_C, topic_id(FROM_C), StopReason.VERSION, 2, 3)
BROKEN = Gap(FROM_A, OF_A, 5, 1, is_open=True)


def told(one: Alone) -> list[Input]:
    recovered(one.lane, NEIGHBOURS, NOW_MS)
    return one.lane.open(NOW_MS).notices


def test_a_loss_stays_a_stop_and_a_later_version_is_tried_again() -> None:
    """Its former owner may have been of an earlier release. Spec: K10."""
    one = Alone().recovered(Halted(RETENTION), Halted(VERSION))
    assert told(one) == [SourceStopped("a", RETENTION)]
    assert list(one.lane.progress.stopped) == [FROM_A]
    assert [fact.stop.topic for fact in one.facts_of(Halted)] == [FROM_C.topic]


def test_a_repair_is_told_at_once_and_asked_for_again_after_a_while() -> None:
    """The request of the former owner may be on its way."""
    one = Alone().recovered(BROKEN)
    request = RepairRequest(FROM_A.topic, 0, OF_A.topic_id, OF_A.partition, 5, 1)
    assert told(one) == [GapFound("a", request)]
    ask_due(one.lane, NOW_MS + AGAIN_MS - 1)
    assert one.facts_of(Gap) == []
    ask_due(one.lane, NOW_MS + AGAIN_MS)
    assert [fact.attempts for fact in one.facts_of(Gap)] == [2]


def test_what_the_node_knows_of_the_lane_and_the_lane_does_not_is_over() -> None:
    """A commit that seemed to fail has come about, or somebody else had the lane in between."""
    one = Alone()
    request = RepairRequest(FROM_A.topic, 0, OF_A.topic_id, OF_A.partition, 5, 1)
    known = one.learner.faults
    known.gaps["a", FROM_A.topic, 0, OF_A.topic_id, OF_A.partition] = request
    known.stops[INGRESS.topic, 0] = ("", stop_of(INGRESS, b"", StopReason.RETENTION, 0, 1))
    assert told(one) == [GapMended("a", request), SourceResumed(INGRESS.topic, 0)]


def test_what_is_committed_of_stops_and_chains_is_what_the_node_hears() -> None:
    """By the function by which it reads what other workers have committed."""
    one = Alone()
    keep_stop(one.lane, RETENTION, NOW_MS)
    assert list(inputs_of(one.facts, NEIGHBOURS)) == [SourceStopped("a", RETENTION)]
    lift_stop(one.lane, RETENTION, NOW_MS)
    assert list(inputs_of(one.facts, NEIGHBOURS)) == [SourceResumed(FROM_A.topic, 0)]
    assert list(inputs_of([BROKEN], {})) == []  # nobody writes there any more
