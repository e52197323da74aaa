"""The auditor's state beside Spark's checkpoint, one file per micro-batch.

Spark may run the last batch again after a crash; then the state from before it is needed. Blocks
are most of a state, and few of them change between two batches. So each is packed apart from the
rest, and what was packed of one is written again for as long as it is as it was.
"""

from __future__ import annotations

import gzip
import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from mesh.errors import ConfigError, Problem
from streaming.audits.block import Block
from streaming.audits.blocks import Blocks
from streaming.job.packed_blocks import (
    LINES,
    BlockKey,
    BlockText,
    block_of,
    json_of,
    lines,
    packed_block,
    unasked,
)
from streaming.job.plain import from_plain, to_plain
from streaming.job.state import State

KEPT = 4
"""Snapshots that are kept."""

SUFFIX = ".json.gz"

TOLD = "told.json"
"""Holds the ids of findings that were written since a state was saved."""

_NO_STATE = (OSError, EOFError, zlib.error, ValueError, TypeError, LookupError, struct.error)

_LEFT_OUT = ("subjects", "receipts", "changed_s", "judged_s", "tickets")
"""Parts of a block that never change without its stamp, times by the clock of this process, which
no snapshot has, and tickets, which are followed where they are."""


class Piece(NamedTuple):
    """What was packed of a block, what the block was then, and what of it can be used again."""

    fingerprint: tuple[Any, ...]
    data: bytes
    held: BlockText


@dataclass(slots=True)
class Snapshots:
    """Saves and loads states.

    Attributes:
        folder: Where the files are; made when first written to.
        pieces: What was packed of blocks the last time.
    """

    folder: Path
    pieces: dict[BlockKey, Piece] = field(default_factory=dict)

    def save(self, batch: int, state: State) -> None:
        """Write the state after a batch; the file is whole or not there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        packed = (_rest_of(state), *self.packed(state.certifier.blocks))
        _write(self._path(batch), b"".join(packed))
        for old in self._batches()[:-KEPT]:
            self._path(old).unlink(missing_ok=True)
        (self.folder / TOLD).unlink(missing_ok=True)

    def note_told(self, ids: Iterable[str]) -> None:
        """Keep which findings are written before the state is saved: no state may know them."""
        self.folder.mkdir(parents=True, exist_ok=True)
        _write(self.folder / TOLD, json.dumps([*ids]).encode())

    def told(self) -> Sequence[str]:
        """Return the findings that were written since a state was saved.

        Raises:
            ConfigError: The file does not hold that.
        """
        path = self.folder / TOLD
        try:
            return [*map(str, json.loads(path.read_text()))] if path.exists() else ()
        except (OSError, ValueError, TypeError) as error:
            raise _no_state(path) from error

    def packed(self, blocks: Blocks) -> Iterator[bytes]:
        """Yield blocks as a snapshot holds them."""
        before, self.pieces = self.pieces, {}
        for place, number, block in blocks.walk():
            key, fingerprint = BlockKey(place, number), _fingerprint_of(block)
            piece = before.get(key)
            if piece is None or piece.fingerprint != fingerprint:
                piece = Piece(fingerprint, *packed_block(key, block, piece and piece.held))
            self.pieces[key] = piece
            yield piece.data

    @property
    def is_empty(self) -> bool:
        """Return whether no state was ever saved here."""
        return not self._batches()

    def load(self) -> State | None:
        """Return the newest state, or None if there is none.

        Raises:
            ConfigError: The file is not a state of this version.
        """
        self.pieces = {}
        batches = self._batches()
        if not batches:
            return None
        path = self._path(batches[-1])
        try:
            first, *others = gzip.decompress(path.read_bytes()).splitlines()
            state: State = from_plain(State, json.loads(first))
            for at in range(0, len(others), LINES):
                key, block = block_of([*map(json.loads, others[at : at + LINES])])
                state.certifier.blocks.open.setdefault(key.place, {})[key.number] = block
        except _NO_STATE as error:
            raise _no_state(path) from error
        return state

    def _batches(self) -> list[int]:
        if not self.folder.is_dir():
            return []
        return sorted(
            int(number)
            for path in self.folder.glob(f"*{SUFFIX}")
            if (number := path.name.removesuffix(SUFFIX)).isdecimal()
        )

    def _path(self, batch: int) -> Path:
        return self.folder / f"{batch}{SUFFIX}"


def _no_state(path: Path) -> ConfigError:
    message = "is no state of this auditor; remove the checkpoint folder to begin again"
    return ConfigError([Problem(code="CHECKPOINT", message=message, where=str(path))])


def _write(path: Path, data: bytes) -> None:
    """Have a file be whole or not there, also after the host has lost its power."""
    draft = path.with_suffix(".draft")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _rest_of(state: State) -> bytes:
    """Return a state without its blocks as a snapshot holds it."""
    certifier = state.certifier
    blocks = replace(certifier.blocks, open={})
    return lines(json_of(to_plain(replace(state, certifier=replace(certifier, blocks=blocks)))))


def _fingerprint_of(block: Block) -> tuple[Any, ...]:
    """Return a mark that changes whenever the saved part of a block does."""
    told = (getattr(block, one.name) for one in fields(block) if one.name not in _LEFT_OUT)
    copied = (dict(one) if isinstance(one, dict) else one for one in told)
    return (*copied, [*map(unasked, block.tickets)])
