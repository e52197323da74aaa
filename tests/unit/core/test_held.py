"""Held targets: what two partitions say of one, in any order."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from mesh.core.held import HeldTargets
from mesh.model.state import Progress, ProgressKind


def word(number: int, offset: int) -> Progress:
    """How far a target is written in the hold of a number; -1: it has ended."""
    return Progress(
        kind=ProgressKind.HELD,
        offset=offset,
        topic="mesh.a.to.b.g",
        partition=0,
        topic_id=bytes(16),
        source_partition=0,
        ahead=number,
    )


def merged(lane: Sequence[Progress], beside: Sequence[Progress]) -> list[int]:
    """Return what is held still after every way in which two partitions may be read."""
    found = set()
    for places in itertools.combinations(range(len(lane) + len(beside)), len(lane)):
        held, words = HeldTargets(), {True: iter(lane), False: iter(beside)}
        for place in range(len(lane) + len(beside)):
            held.take(next(words[place in places]))
        found.add(tuple(one.ahead for one in held.still))
    assert len(found) == 1, found
    return list(found.pop())


def test_the_end_of_one_hold_is_not_that_of_the_next() -> None:
    """Spec: K20."""
    assert merged([word(1, 5), word(1, -1), word(2, 9)], [word(1, 7), word(1, -1)]) == [2]
    assert merged([word(1, 5), word(1, -1)], [word(1, 7), word(1, -1)]) == []
    assert merged([word(1, 5)], [word(1, 7)]) == [1]
