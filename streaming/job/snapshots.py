"""The auditor's state beside Spark's checkpoint, one file per micro-batch.

Spark may run the last batch again after a crash; then the state from before it is needed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from mesh.errors import ConfigError, Problem
from streaming.job.plain import from_plain, to_plain

KEPT = 4
"""Snapshots that are kept."""

T = TypeVar("T")


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
        draft.write_text(json.dumps(to_plain(state), separators=(",", ":")), encoding="utf-8")
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
            state: T = from_plain(self.kind, json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, KeyError) as error:
            message = "is no state of this auditor; remove the checkpoint folder to begin anew"
            problem = Problem(code="CHECKPOINT", message=message, where=str(path))
            raise ConfigError([problem]) from error
        return state

    def _batches(self) -> list[int]:
        if not self.folder.is_dir():
            return []
        return sorted(
            int(path.stem) for path in self.folder.glob("*.json") if path.stem.isdecimal()
        )

    def _path(self, batch: int) -> Path:
        return self.folder / f"{batch}.json"
