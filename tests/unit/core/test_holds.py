"""Held targets: what two partitions say of one, in any order."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from mesh.core.holds import Holds
from mesh.model.facts import Held
from mesh.model.frames import SourcePartition, TopicPartition


def word(number: int, offset: int) -> Held:
    """How far a target is written in the hold of a number; -1: it has ended."""
    return Held(TopicPartition("mesh.a.to.b.g", 0), SourcePartition(bytes(16), 0), number, offset)


def merged(lane: Sequence[Held], beside: Sequence[Held]) -> list[int]:
    """Return what is held still after every way in which two partitions may be read."""
    found = set()
    for places in itertools.combinations(range(len(lane) + len(beside)), len(lane)):
        holds, words, twice = Holds(), iter(lane), iter(beside)
        for place in range(len(lane) + len(beside)):
            if place in places:
                holds.apply(next(words))
            else:
                holds.apply_catch_up(next(twice))
        found.add(tuple(one.number for one in holds.held))
    assert len(found) == 1, found
    return list(found.pop())


def test_the_end_of_one_hold_is_not_that_of_the_next() -> None:
    """Spec: K20."""
    assert merged([word(1, 5), word(1, -1), word(2, 9)], [word(1, 7)]) == [2]
    assert merged([word(1, 5), word(1, -1)], [word(1, 7)]) == []
    assert merged([word(1, 5)], [word(1, 7)]) == [1]


def test_a_hold_ends_by_the_word_of_its_lane_alone() -> None:
    """A catch-up does not know how far the lane has read since it wrote. Spec: K20."""
    assert merged([word(1, 5)], [word(1, 7), word(1, -1)]) == [1]
