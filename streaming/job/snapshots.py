"""The auditor's state beside Spark's checkpoint, one file per micro-batch.

Spark may run the last batch again after a crash; then the state from before it is needed.
"""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from mesh.errors import ConfigError, Problem
from streaming.job.plain import from_plain, to_plain

KEPT = 4
"""Snapshots that are kept."""

SUFFIX = ".json.gz"

LEVEL = 1
"""How hard is tried to make a snapshot small: most of the gain is to be had for little."""

T = TypeVar("T")


def packed(state: object) -> bytes:
    """Return an instance of a dataclass as a snapshot holds it."""
    text = json.dumps(to_plain(state), separators=(",", ":"))
    return gzip.compress(text.encode(), LEVEL, mtime=0)


@dataclass(frozen=True, slots=True)
class Snapshots(Generic[T]):
    """Saves and loads states of one class.

    Attributes:
        folder: Where the files are; made when first written to.
        kind: Class of the state.
    """

    folder: Path
    kind: type[T]

    def save(self, batch: int, state: T) -> None:
        """Write the state after a batch; the file is whole or not there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._path(batch)
        draft = path.with_suffix(".draft")
        draft.write_bytes(packed(state))
        draft.replace(path)
        for old in self._batches()[:-KEPT]:
            self._path(old).unlink(missing_ok=True)

    def load(self) -> T | None:
        """Return the newest state, or None if there is none.

        Raises:
            ConfigError: The file is not a state of this version.
        """
        batches = self._batches()
        if not batches:
            return None
        path = self._path(batches[-1])
        try:
            state: T = from_plain(self.kind, json.loads(gzip.decompress(path.read_bytes())))
        except (OSError, EOFError, zlib.error, ValueError, TypeError, KeyError) as error:
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
