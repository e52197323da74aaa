"""Held targets: what two partitions say of one, in any order."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from mesh.core.held import HeldTargets
from mesh.model.facts import Held
from mesh.model.frames import SourcePartition, TopicPartition


def word(number: int, offset: int) -> Held:
    """How far a target is written in the hold of a number; -1: it has ended."""
    return Held(TopicPartition("mesh.a.to.b.g", 0), SourcePartition(bytes(16), 0), number, offset)


def merged(lane: Sequence[Held], beside: Sequence[Held]) -> list[int]:
    """Return what is held still after every way in which two partitions may be read."""
    found = set()
    for places in itertools.combinations(range(len(lane) + len(beside)), len(lane)):
        held, words = HeldTargets(), {True: iter(lane), False: iter(beside)}
        for place in range(len(lane) + len(beside)):
            held.take(next(words[place in places]))
        found.add(tuple(one.number for one in held.still))
    assert len(found) == 1, found
    return list(found.pop())


def test_the_end_of_one_hold_is_not_that_of_the_next() -> None:
    """Spec: K20."""
    assert merged([word(1, 5), word(1, -1), word(2, 9)], [word(1, 7), word(1, -1)]) == [2]
    assert merged([word(1, 5), word(1, -1)], [word(1, 7), word(1, -1)]) == []
    assert merged([word(1, 5)], [word(1, 7)]) == [1]
