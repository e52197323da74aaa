"""A log that has lost its end, and goes on: the generations of its offsets.

Spec: K9, K11, R6.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mesh.model.facts import Truncation
from mesh.model.frames import generation_and_offset


def generation_at(each: Sequence[Truncation], offset: int) -> int:
    """Return the generation of the record that is now at an offset."""
    return max((one.generation for one in each if one.first <= offset), default=0)


def begin_after(each: Sequence[Truncation], position: int) -> int:
    """Return the offset from which to read a log to find everything from a position on."""
    generation, offset = generation_and_offset(position)
    return min([offset, *(one.first for one in each if one.generation > generation)])


def parts(each: Sequence[Truncation], first: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield (generation, first, end) for each single-generation part of a range of offsets."""
    cuts = sorted({one.first for one in each if first < one.first < end})
    for begin, until in zip([first, *cuts], [*cuts, end], strict=True):
        yield generation_at(each, begin), begin, until
