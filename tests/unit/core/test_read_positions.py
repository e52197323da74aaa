"""How far a source is read, and from where on it is needed, by what the lanes of a node record."""

from __future__ import annotations

from mesh.core.read_positions import ReadPositions
from mesh.model.control import OutboxPosition, Stop
from mesh.model.facts import ENDED, Halted, Held, SourceAt
from mesh.model.frames import SourcePartition, TopicPartition

ID = bytes(15) + b"\1"
PLACES = [TopicPartition("mesh.a.to.b.g", number) for number in range(2)]


def held(partition: int, number: int, first: int) -> Held:
    """A source is not written at an endpoint from an offset on, in the hold of a number."""
    target = TopicPartition("mesh.b.ep.s", partition)
    return Held(target, SourcePartition(ID, partition), number, first)


def told(known: ReadPositions) -> list[OutboxPosition]:
    return list(known.of_topics(["mesh.a.to.b.g"]).values())


def positions(known: ReadPositions) -> list[tuple[int, int]]:
    return [(one.read, one.needed) for one in told(known)]


def test_two_lanes_hold_the_same_target_each_in_a_hold_of_its_own() -> None:
    """What either has left out is needed, whichever hold has the higher number. Spec: K5, K20."""
    known = ReadPositions()
    for lane, at in enumerate(PLACES):
        known.apply(lane, SourceAt(at, ID, 20))
        known.apply(lane, held(lane, 1_000_001 + lane, 5 + lane))
    assert positions(known) == [(20, 5), (20, 6)]
    known.apply(1, held(1, 1_000_002, ENDED))
    assert positions(known) == [(20, 5), (20, 20)]
    assert {(one.topic_id, one.topic) for one in told(known)} == {(ID, "mesh.a.to.b.g")}


def test_a_source_whose_log_was_cut_off_is_read_no_further_than_that() -> None:
    """What has come there since was not read, and must not be deleted. Spec: K5, R6."""
    known = ReadPositions()
    known.apply(0, SourceAt(PLACES[0], ID, 20))
    stop = Stop(PLACES[0].topic, 0, ID, "truncated", 12, 20)
    known.apply(0, Halted(stop))
    assert positions(known) == [(12, 12)]
    known.apply(0, Halted(Stop(PLACES[0].topic, 0, ID, "", 12, 20)))
    assert positions(known) == [(20, 20)]
    assert known.of_topics(["mesh.c.to.b.g"]) == {}
