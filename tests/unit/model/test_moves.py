"""How often a message was moved between members of its queue, as its `ext` says. Spec: DESIGN 6."""

from __future__ import annotations

import pytest

from mesh.model.queues import MOVED_BYTES, MOVED_EXT, moved_once_more, moves_of

MOST = b"\xff" * MOVED_BYTES


@pytest.mark.parametrize(
    ("written", "moves"),
    [(None, 0), (b"", 0), (b"\0\0\0\0\0\0\0\2", 2), (b"\2", 2), (b"\0" + MOST, 0), (MOST * 9, 0)],
)
def test_what_no_mover_writes_counts_as_never_moved(written: bytes | None, moves: int) -> None:
    ext = {} if written is None else {MOVED_EXT: written}
    assert moves_of(ext) == moves
    assert moves_of({MOVED_EXT: moved_once_more(ext)}) == moves + 1


def test_the_highest_number_ends_no_mover() -> None:
    """A stranger may have written it into an endpoint."""
    assert moved_once_more({MOVED_EXT: MOST}) == MOST
