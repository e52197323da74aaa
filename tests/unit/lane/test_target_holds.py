"""A target that is left out: the lane goes on for the others, and when it writes it again. K20."""

from __future__ import annotations

from dataclasses import replace

from mesh.lane.target_holds import hold, hold_source, is_met, release, sources_of
from mesh.model.facts import ENDED, Held, Sent
from tests.unit.lane.steps import (
    ENDPOINT,
    FROM_A,
    FROM_A_DIRECT,
    FROM_C,
    INGRESS,
    INGRESS_DIRECT,
    NOW_MS,
    TO_C,
    Alone,
    frame,
    published,
)


def held(one: Alone) -> list[tuple[str, int, int]]:
    """Return (topic of a target, id of a source there, next offset) as they are to be recorded."""
    return [(fact.at.topic, fact.source.partition, fact.next) for fact in one.facts_of(Held)]


def test_a_target_is_left_out_from_where_the_lane_stands_and_others_go_on() -> None:
    """What the open batch has read is written: it stands before the hold."""
    one = Alone()
    one.step(FROM_A, frame(0, -1, 4, 4))
    hold(one.lane, TO_C.topic, NOW_MS)
    one.step(FROM_A, frame(1, 4, 5, 5))
    assert one.chains(TO_C) == [(-1, 0, 0)]
    assert len(one.rows(ENDPOINT)) == 2
    assert held(one) == [(TO_C.topic, 0, 1)]
    assert one.lane.open(NOW_MS).is_awaited


def test_it_lacks_nothing_of_a_source_that_it_never_gets() -> None:
    """Neither what it sent itself, nor what is direct: nobody catches that up."""
    one = Alone()
    for at in (FROM_A, FROM_C, FROM_A_DIRECT, INGRESS):
        one.read(at)
    hold(one.lane, TO_C.topic, NOW_MS)
    hold_source(one.lane, one.read(INGRESS_DIRECT), NOW_MS)
    sources = {one.lane.sources[at].identity for at in (FROM_A, INGRESS)}
    assert {fact.source for fact in one.facts_of(Held)} == sources


def test_a_source_that_is_found_later_is_left_out_before_anything_of_it_is_read() -> None:
    one = Alone()
    one.read(FROM_A)
    hold(one.lane, TO_C.topic, NOW_MS)
    hold_source(one.lane, one.read(INGRESS), NOW_MS)
    one.step(INGRESS, published(0))
    assert one.rows(TO_C) == []
    numbers = {fact.number for fact in one.facts_of(Held)}
    assert (len(one.facts_of(Held)), len(numbers)) == (2, 1)


def test_it_is_met_where_each_source_is_written_exactly_as_far_as_it_was_read() -> None:
    """Short of that messages would be missing there, and beyond it they would come twice."""
    one = Alone()
    one.step(FROM_A, frame(0, -1, 4, 4))
    hold(one.lane, TO_C.topic, NOW_MS)
    one.step(FROM_A, frame(1, 4, 5, 5))
    assert not is_met(one.lane, TO_C.topic)
    [begun] = one.facts_of(Held)
    for written, met in ((1, False), (2, True), (3, False)):
        one.lane.hear_catch_ups([replace(begun, next=written)])
        assert is_met(one.lane, TO_C.topic) == met


def test_words_of_a_catch_up_count_for_the_hold_of_their_number_alone() -> None:
    """One that was late would have the lane pass over what was left out since. Spec: K12."""
    one = Alone()
    one.step(FROM_A, frame(0, -1, 4, 4))
    hold(one.lane, TO_C.topic, NOW_MS)
    [former] = one.facts_of(Held)
    release(one.lane, TO_C.topic, NOW_MS)
    hold(one.lane, TO_C.topic, NOW_MS)
    one.step(FROM_A, frame(1, 4, 5, 5))
    one.lane.hear_catch_ups([replace(former, next=2)])
    assert one.lane.progress.holds.next(TO_C.topic)[former.at, former.source] == 1
    assert not is_met(one.lane, TO_C.topic)


def test_once_it_is_written_again_its_chain_goes_on_behind_what_was_caught_up() -> None:
    """And that is recorded: who takes the lane asks nobody what was written beside it."""
    one = Alone()
    one.step(FROM_A, frame(0, -1, 4, 4))
    hold(one.lane, TO_C.topic, NOW_MS)
    one.step(FROM_A, frame(1, 4, 5, 5))
    [begun] = one.facts_of(Held)
    caught_up = Sent(TO_C, one.lane.sources[FROM_A].identity, 1)
    one.lane.hear_catch_ups([replace(begun, next=2), caught_up])
    release(one.lane, TO_C.topic, NOW_MS)
    assert [fact.next for fact in one.facts_of(Held)] == [ENDED]
    assert [fact.last for fact in one.facts_of(Sent)] == [1]
    one.step(FROM_A, frame(2, 5, 6, 6))
    assert one.chains(TO_C) == [(-1, 0, 0), (1, 2, 2)]


def test_a_stopped_source_may_be_lacking_all_the_same() -> None:
    one = Alone()
    one.step(FROM_A, frame(0, -1, 4, 4))
    hold(one.lane, TO_C.topic, NOW_MS)
    taken = one.recovered(*one.facts)
    assert taken.lane.holds_target(TO_C.topic)
    assert sources_of(taken.lane, TO_C.topic) == []  # nobody knows yet what its log is by now
    source = taken.read(FROM_A)
    assert sources_of(taken.lane, TO_C.topic) == [source]
