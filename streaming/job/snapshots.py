"""The auditor's state beside Spark's checkpoint, one file per micro-batch.

Spark may run the last batch again after a crash; then the state from before it is needed. Blocks
are most of a state, and few of them change between two batches. So each is packed apart from the
rest, and what was packed of one is written again for as long as it is as it was.
"""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from mesh.errors import ConfigError, Problem
from streaming.audits.blocks import Block, Blocks
from streaming.job.plain import Shared, from_plain, to_plain
from streaming.job.state import State
from streaming.tables.digest import Digest
from streaming.tables.rows import TopicPartition

KEPT = 4
"""Snapshots that are kept."""

SUFFIX = ".json.gz"

LEVEL = 6
"""How hard is tried to make a snapshot small: to make it plain costs more."""

_NO_STATE = (OSError, EOFError, zlib.error, ValueError, TypeError, LookupError, struct.error)

_PARTS = [one.name for one in fields(Digest)]
_PARTS_OF = attrgetter(*_PARTS)

_LARGE = ("subjects", "receipts", "issued")
"""Parts of a block that are most of it. Each is packed alone, and so are digests: what is of one
kind is made smaller than a mixture."""

_NAMES = [one.name for one in fields(Block)]

_LINES = 2 + len(_LARGE)
"""Of each block: its key with what is not large, digests, and each large part."""

_TOLD_BY_STAMP = ("subjects", "receipts")
"""Parts of a block that never change without its stamp."""


class BlockKey(NamedTuple):
    """Which block."""

    place: TopicPartition
    number: int


class Piece(NamedTuple):
    """What was packed of a block, and what the block was then."""

    mark: tuple[Any, ...]
    data: bytes


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
        path = self._path(batch)
        draft = path.with_suffix(".draft")
        draft.write_bytes(b"".join((_rest_of(state), *self.packed(state.certifier.blocks))))
        draft.replace(path)
        for old in self._batches()[:-KEPT]:
            self._path(old).unlink(missing_ok=True)

    def packed(self, blocks: Blocks) -> Iterator[bytes]:
        """Yield blocks as a snapshot holds them."""
        before, self.pieces = self.pieces, {}
        for place, number, block in blocks.walk():
            key, mark = BlockKey(place, number), _mark_of(block)
            piece = before.get(key)
            if mark is None or piece is None or piece.mark != mark:
                piece = Piece(() if mark is None else mark, _packed_block(key, block))
            self.pieces[key] = piece
            yield piece.data

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
            for at in range(0, len(others), _LINES):
                key, block = _block_of([*map(json.loads, others[at : at + _LINES])])
                state.certifier.blocks.open.setdefault(key.place, {})[key.number] = block
        except _NO_STATE as error:
            message = "is no state of this auditor; remove the checkpoint folder to begin anew"
            problem = Problem(code="CHECKPOINT", message=message, where=str(path))
            raise ConfigError([problem]) from error
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


def _rest_of(state: State) -> bytes:
    """Return a state without its blocks as a snapshot holds it."""
    certifier = state.certifier
    blocks = replace(certifier.blocks, open={})
    return _line(to_plain(replace(state, certifier=replace(certifier, blocks=blocks))))


def _packed_block(key: BlockKey, block: Block) -> bytes:
    """Return a block as a snapshot holds it.

    What was published for an endpoint, what it got and what was certified are the same messages
    nearly always, and their digest is what can least be made smaller: it is written once.
    """
    shared: Shared = {}
    parts = dict(zip(_NAMES, to_plain(block, shared), strict=True))
    large = [parts.pop(name) for name in _LARGE]
    lines = [[[*key.place, key.number], list(parts.values())], _text_of(list(shared)), *large]
    return b"".join(map(_line, lines))


def _block_of(lines: Sequence[Any]) -> tuple[BlockKey, Block]:
    """Return the block that `_packed_block` made lines of."""
    ((topic, partition, number), rest), digests, *large = lines
    others = [name for name in _NAMES if name not in _LARGE]
    parts = dict(zip((*others, *_LARGE), (*rest, *large), strict=True))
    block: Block = from_plain(Block, [parts[name] for name in _NAMES], _digests_of(digests))
    return BlockKey(TopicPartition(topic, partition), number), block


def _text_of(digests: Sequence[Digest]) -> str:
    """Return digests as text, part by part, and of each first the lowest bytes of all.

    Hashes are as long as they are; of counts and sums the upper bytes are alike, and go together.
    """
    columns = list(zip(*map(_PARTS_OF, digests), strict=True))
    data = (struct.pack(f"<{len(digests)}q", *column) for column in columns)
    return b64encode(b"".join(one[at::8] for one in data for at in range(8))).decode()


def _digests_of(text: str) -> Sequence[Digest]:
    """Return the digests that `_text_of` made a text of."""
    planes = b64decode(text, validate=True)
    count = len(planes) // (8 * len(_PARTS))
    columns = []
    for part in range(len(_PARTS)):
        data = bytearray(8 * count)
        for at in range(8):
            begin = (8 * part + at) * count
            data[at::8] = planes[begin : begin + count]
        columns.append(struct.unpack(f"<{count}q", data))
    return [Digest(*parts) for parts in zip(*columns, strict=True)]


def _line(plain: object) -> bytes:
    text = json.dumps(plain, separators=(",", ":"))
    return gzip.compress(f"{text}\n".encode(), LEVEL, mtime=0)


def _mark_of(block: Block) -> tuple[Any, ...] | None:
    """Return what tells that a block has changed; None where only all of it does."""
    if block.tickets:
        return None  # they are followed where they are
    told = (getattr(block, one.name) for one in fields(block) if one.name not in _TOLD_BY_STAMP)
    return tuple(dict(one) if isinstance(one, dict) else one for one in told)
