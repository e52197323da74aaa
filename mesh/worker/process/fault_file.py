"""Injected faults as a worker process follows them: a file names them, and may change any time."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from mesh.model.topics import TopicNames
from mesh.worker.process.injected_faults import (
    InjectedFaults,
    SlowIntake,
    WallClock,
    read_injected_faults,
)
from mesh.worker.process.intake import Intake

log = structlog.get_logger()


def seen_file(fault_file: Path, pid: int) -> Path:
    """Return where the worker of this process records which faults are in force."""
    return fault_file.with_suffix(f".seen-{pid}")


class FaultFile:
    """Has one worker suffer what a file says.

    Args:
        path: The file; while it is missing or half written, nothing changes.
        node: The node that the worker serves.
        names: Names of its topics.
    """

    def __init__(self, path: Path, node: str, names: TopicNames) -> None:
        self._path, self._node, self._names = path, node, names
        self._faults: InjectedFaults | None = None
        self._stamp: tuple[int, int, int] | None = None
        self._slow: SlowIntake | None = None
        self._wall_clock = WallClock()

    def begin(self, intake: Intake, now_ms: Callable[[], int]) -> Intake:
        """Return an intake for a new worker that can be slowed down; at first nothing is slow."""
        self._faults = self._stamp = None
        chance = random.Random()  # noqa: S311 - decides which fetches of a slow link are lost
        self._slow = SlowIntake(intake, now_ms, chance.random)
        return self._slow

    def follow(self, isolate: Callable[[Sequence[str]], None]) -> None:
        """Check the file, and do what it says if that is new.

        Args:
            isolate: Stops the worker from reading these neighbours.
        """
        try:
            if (stamp := _stamp(self._path)) == self._stamp:
                return  # checked each turn: reading it costs more than much of a turn
            faults = read_injected_faults(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return
        self._stamp = stamp
        if faults == self._faults:
            return
        self._faults = faults
        isolate(faults.cuts)
        if self._slow is not None:
            self._slow.slow(faults.slow, self._node, self._names)
        self._wall_clock.shift(faults.clock_s)
        if faults != InjectedFaults():
            log.warning("faults.injected", faults=faults.written())
        seen_file(self._path, os.getpid()).write_text(faults.written(), encoding="utf-8")


def _stamp(path: Path) -> tuple[int, int, int]:
    """Return a value that differs once a file has been rewritten or replaced."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size
