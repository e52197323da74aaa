"""Generations of offsets: what was told of them, and what digests can stand for. Spec: K9, R6."""

from __future__ import annotations

import pytest

from mesh.model.control import Stop
from mesh.model.facts import SourceAt
from mesh.model.frames import TopicPartition
from streaming.audits.generations import Generations
from streaming.audits.holds import OpenHolds
from streaming.audits.hop_progress import HopProgress
from streaming.tables.rows import SourceKey

SOURCE = SourceKey("aa", 0)


def stop(reason: str = "truncated", generation: int = 0, first: int = 100) -> Stop:
    return Stop("mesh.a.in.g", 0, b"\xaa", reason, first, first + 9, generation)


def test_a_truncation_tells_from_where_on_offsets_come_again():
    known = Generations()
    assert known.stop(stop())
    assert not known.stop(stop())
    assert known.of(SOURCE) == [(0, 0), (1, 100)]
    assert known.stop(stop(generation=1, first=70))
    assert known.of(SOURCE) == [(0, 0), (1, 100), (2, 70)]
    assert known.of(SourceKey("aa", 1)) == known.of(None) == [(0, 0)]


@pytest.mark.parametrize("reason", ["retention", "recreated", "version"])
def test_other_stops_tell_of_no_generation(reason: str):
    assert not Generations().stop(stop(reason))


def test_progress_tells_of_a_generation_and_not_where_it_began():
    """A stop that was lifted is compacted away."""
    progress = HopProgress("mesh.", OpenHolds("mesh."))
    record = SourceAt(TopicPartition("mesh.a.in.g", 0), b"\xaa", 120, generation=2)
    assert progress.read("a", record)
    assert not progress.read("a", record)
    assert progress.generations.of(SOURCE) == [(0, 0), (1, 0), (2, 0)]
    assert progress.generations.stop(stop(generation=1))
    assert progress.generations.of(SOURCE) == [(0, 0), (1, 0), (2, 100)]


@pytest.mark.parametrize(
    ("generations", "last", "is_plain"),
    [
        ([], 4095, True),
        ([0], 99, True),
        ([0], 100, False),
        ([1], 4095, True),
        ([1], 99, True),
        ([0, 1], 99, False),
        ([2], 4095, False),
    ],
)
def test_digests_stand_for_one_generation_that_was_told_of(generations, last, is_plain):
    known = Generations()
    known.stop(stop())
    assert known.is_plain(SOURCE, generations, last) is is_plain


def test_of_a_source_that_was_never_truncated_there_is_one():
    assert Generations().is_plain(SOURCE, [0], 0)
    assert not Generations().is_plain(SOURCE, [1], 0)


@pytest.mark.parametrize("generation", [-1, -2, -(2**31)])
def test_no_generation_is_below_the_first(generation: int):
    """One that hides the first left nothing that a digest could stand for: no judgement ended."""
    known = Generations()
    assert not known.stop(stop(generation=generation, first=2**40))
    progress = HopProgress("mesh.", OpenHolds("mesh."), generations=known)
    record = SourceAt(TopicPartition("mesh.a.in.g", 0), b"\xaa", 120, generation=generation)
    assert not progress.read("a", record)
    assert known.of(SOURCE) == [(0, 0)]
    assert known.is_plain(SOURCE, [0], 4095)
    assert not progress.generation_of
