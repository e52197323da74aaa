"""A log that has lost its end, and goes on: which of its offsets are of which generation.

Spec: K9, K11, R6.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mesh.model.facts import Truncation
from mesh.model.frames import generation_and_offset


def generation_at(each: Sequence[Truncation], offset: int) -> int:
    """Return the generation of what stands at an offset now."""
    return max((one.generation for one in each if one.first <= offset), default=0)


def begin_after(each: Sequence[Truncation], position: int) -> int:
    """Return from which offset on a log has to be read to find all from a position on."""
    generation, offset = generation_and_offset(position)
    return min([offset, *(one.first for one in each if one.generation > generation)])


def parts(each: Sequence[Truncation], first: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield (generation, first, end) of each part of a range of offsets that are of one."""
    cuts = sorted({one.first for one in each if first < one.first < end})
    for begin, until in zip([first, *cuts], [*cuts, end], strict=True):
        yield generation_at(each, begin), begin, until
