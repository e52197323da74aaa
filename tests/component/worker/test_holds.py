"""What follows from the words of a lane and of its catch-ups, in whatever order they are read."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.core.holds import ChainKey
from mesh.lane.progress import Progress
from mesh.model.facts import ENDED, Fact, Held, Sent
from mesh.model.frames import SourcePartition, TopicPartition

OUTBOX, OTHER = TopicPartition("a.to.b.g", 0), TopicPartition("a.ep.e", 0)
ONE, TWO = SourcePartition(b"1" * 16, 0), SourcePartition(b"2" * 16, 0)

Word = tuple[bool, Fact]
"""Whether a catch-up says it, and what."""


def lane(at: TopicPartition, source: SourcePartition, number: int, first: int) -> Word:
    return False, Held(at, source, number, first)


def beside(at: TopicPartition, source: SourcePartition, number: int, first: int) -> Word:
    return True, Held(at, source, number, first)


def sent(at: TopicPartition, source: SourcePartition, last: int) -> Word:
    return True, Sent(at, source, last)


def folded(words: tuple[Word, ...] | list[Word]) -> Progress:
    progress = Progress()
    for is_beside, fact in words:
        if is_beside:
            progress.apply_catch_up(fact)
        else:
            progress.apply(fact)
    return progress


def known(progress: Progress) -> tuple[dict[ChainKey, int], dict[ChainKey, int]]:
    holds = progress.holds
    held = {key: first for target in holds for key, first in holds.next(target).items()}
    return held, progress.sent


@pytest.mark.parametrize(
    ("words", "held", "last"),
    [
        ([lane(OUTBOX, ONE, 7, 20)], {(OUTBOX, ONE): 20}, {}),
        (
            [lane(OUTBOX, ONE, 7, 20), beside(OUTBOX, ONE, 7, 25), sent(OUTBOX, ONE, 24)],
            {(OUTBOX, ONE): 25},
            {(OUTBOX, ONE): 24},
        ),
        (
            [lane(OUTBOX, ONE, 7, 20), beside(OUTBOX, ONE, 6, 25), sent(OUTBOX, ONE, 24)],
            {(OUTBOX, ONE): 20},
            {},
        ),
        (
            [lane(OUTBOX, ONE, 7, 20), beside(OUTBOX, ONE, 7, ENDED), sent(OUTBOX, ONE, 30)],
            {(OUTBOX, ONE): 20},
            {(OUTBOX, ONE): 30},
        ),
        (
            [lane(OTHER, ONE, 7, 20), lane(OTHER, TWO, 7, 3), beside(OTHER, ONE, 7, 30)],
            {(OTHER, ONE): 30, (OTHER, TWO): 3},
            {},
        ),
        ([lane(OTHER, ONE, 8, 40), beside(OTHER, ONE, 8, 25)], {(OTHER, ONE): 40}, {}),
        ([lane(OTHER, ONE, 8, ENDED), beside(OTHER, ONE, 8, 25)], {}, {}),
    ],
    ids=[
        "nothing written yet",
        "written for a while",
        "a hold before",
        "an end that is not the lane's",
        "one source that was never read",
        "let go, and left out again in the same hold",
        "told to have ended",
    ],
)
def test_a_word_of_a_catch_up_counts_for_its_own_hold(
    words: list[Word], held: dict[ChainKey, int], last: dict[ChainKey, int]
) -> None:
    """Between partitions there is no order: a lane that lived through it knows no more. K12, K20."""
    for order in permutations(words):
        assert known(folded(order)) == (held, last)


HELDS = st.builds(
    Held,
    st.sampled_from([OUTBOX, OTHER]),
    st.sampled_from([ONE, TWO]),
    st.integers(1, 3),
    st.sampled_from([ENDED, 0, 5, 9]),
)
SENTS = st.builds(
    Sent, st.sampled_from([OUTBOX, OTHER]), st.sampled_from([ONE, TWO]), st.integers(0, 9)
)


@given(st.lists(HELDS), st.lists(HELDS | SENTS))
def test_who_takes_a_lane_knows_what_it_knew(own: list[Fact], others: list[Fact]) -> None:
    """It reads the last word of each key only: first the lane's, then those beside it. Spec: K12."""
    words = [*((False, fact) for fact in own), *((True, fact) for fact in others)]
    newest = {(is_beside, fact.key): (is_beside, fact) for is_beside, fact in words}
    lived, found = folded(words), folded(list(newest.values()))
    assert known(lived)[0] == known(found)[0]
