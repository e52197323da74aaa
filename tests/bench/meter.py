"""CPU seconds of processes, and of everybody else on the machine."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

OWN_CORE, OTHER_CORE = 0, 1
"""Cores of the contender under measurement, and of the brokers and everybody else of ours."""

_PROCESS_CLOCK = 2
"""Which of a process's clocks: the scheduler's, of all its threads."""


def pin(pid: int, core: int) -> None:
    """Bind every thread of a process to one core, and those it starts later with them."""
    cores = {core % (os.cpu_count() or 1)}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            os.sched_setaffinity(int(thread.name), cores)
        except ProcessLookupError:
            continue


def cpu_s(pid: int) -> float:
    """Return user and system seconds of a process, all threads, to the nanosecond.

    The kernel has a clock for the CPU of each process; its number is made of the process id.
    """
    return time.clock_gettime(~pid << 3 | _PROCESS_CLOCK)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that brokers wrote to their logs and sent to clients, ends of two readings subtracted.

    The kernel counts all that a process writes, to files and to sockets, and what it hands from
    one to the other; what is not growth of a log was sent.
    """

    written: int
    sent: int


class Wire:
    """Reads the traffic of brokers: made at its start, read at its end.

    Args:
        pids: The brokers.
        folders: Where they keep their logs.
    """

    def __init__(self, pids: Sequence[int], folders: Sequence[Path]) -> None:
        self._pids, self._folders = pids, folders
        self._logs, self._all = self._sizes(), self._handed_over()

    def _sizes(self) -> dict[Path, int]:
        found = {}
        for folder in self._folders:
            for file in folder.glob("*/*.log"):
                try:
                    found[file] = file.stat().st_size
                except FileNotFoundError:  # deleted by retention since it was listed
                    continue
        return found

    def _handed_over(self) -> int:
        told = [Path(f"/proc/{pid}/io").read_text(encoding="ascii") for pid in self._pids]
        lines = [line for text in told for line in text.splitlines() if line.startswith("wchar")]
        return sum(int(line.split()[1]) for line in lines)

    def read(self) -> Traffic:
        """Return what went by since it was made."""
        sizes = self._sizes().items()
        written = sum(max(0, size - self._logs.get(file, 0)) for file, size in sizes)
        return Traffic(written, max(0, self._handed_over() - self._all - written))


def forget_peak(pid: int) -> None:
    """Have the peak of a process's resident memory begin anew at what it holds now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")


def peak_mb(pid: int) -> float:
    """Return the peak of a process's resident memory since `forget_peak`, in MB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024 / 1e6


def _busy_s() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a span of time cost.

    Attributes:
        wall_s: Its length.
        cpu_s: CPU seconds by name of the process.
        foreign: CPU of all processes not of ours, as a share of one core.
    """

    wall_s: float
    cpu_s: Mapping[str, float]
    foreign: float


class Meter:
    """Measures a span: made at its start, read at its end.

    Args:
        processes: Our processes by name, this one included.
    """

    def __init__(self, processes: Mapping[str, Sequence[int]]) -> None:
        self._processes = {**processes, "bench": [os.getpid()]}
        self._before = self._cpu()
        self._busy_s = _busy_s()
        self._began_s = time.monotonic()

    def _cpu(self) -> dict[str, float]:
        return {name: sum(map(cpu_s, pids)) for name, pids in self._processes.items()}

    def read(self) -> Usage:
        """Return what was used since the meter was made."""
        wall_s = time.monotonic() - self._began_s
        busy_s = _busy_s() - self._busy_s
        used = {name: after - self._before[name] for name, after in self._cpu().items()}
        foreign_s = max(0.0, busy_s - sum(used.values()))
        return Usage(wall_s, used, foreign_s / max(wall_s, 0.001))
