"""Which offsets of a log that lost its end are of which generation, against a log kept by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mesh.core.truncations import begin_after, generation_at, parts
from mesh.model.facts import Truncation
from mesh.model.frames import position_in_chain


def kept_by_hand(moves: list[tuple[int, float]]) -> tuple[list[Truncation], list[int]]:
    """Write some records and cut the log off, again and again; return what each record is of."""
    told: list[Truncation] = []
    log: list[int] = []
    for written, share in moves:
        log += [len(told)] * written
        first = int(len(log) * share)
        told.append(Truncation(len(told) + 1, first, len(log)))
        del log[first:]
    return told, [*log, *[len(told)] * 3]


MOVES = st.lists(st.tuples(st.integers(0, 6), st.floats(0, 0.99)), max_size=5)


@given(MOVES)
def test_each_offset_is_of_the_generation_that_wrote_it(moves: list[tuple[int, float]]) -> None:
    """Spec: K9, K11."""
    told, log = kept_by_hand(moves)
    assert [generation_at(told, offset) for offset in range(len(log))] == log
    found = [
        generation for generation, first, end in parts(told, 0, len(log)) for _ in range(first, end)
    ]
    assert found == log


@given(MOVES, st.integers(0, 5), st.integers(0, 20))
def test_who_reads_from_there_finds_all_behind_a_position_and_nothing_before(
    moves: list[tuple[int, float]], generation: int, offset: int
) -> None:
    """Whichever of the log's generations it is of. Spec: K11, K20."""
    told, log = kept_by_hand(moves)
    generation = min(generation, len(told))
    floor = next((one.first for one in told if one.generation == generation), 0)
    first = position_in_chain(generation, max(offset, floor))
    behind = [at for at, of in enumerate(log) if position_in_chain(of, at) >= first]
    begin = begin_after(told, first)
    assert behind == list(range(begin, len(log)))
