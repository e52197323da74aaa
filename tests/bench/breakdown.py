"""Where the CPU of a message goes, row by row, in microseconds; a raw loop beside it is the floor.

Each row is drained twice: once for what it costs, once more while py-spy looks at its process, whose
samples share out that cost. The client library's own threads are told apart by the kernel; of
Python's threads a sample counts for the library where it was called, else for the part of the mesh
whose code stood nearest.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mesh.errors import StartError
from mesh.local.jars import find_kafka
from mesh.local.processes import Process, spawn
from tests.bench.command import at_least, carry_out, parser_of, say
from tests.bench.contenders import Contender, Positions, raw_loop, wait_until, walks
from tests.bench.load import Load
from tests.bench.meter import OTHER_CORE, OWN_CORE, Meter, pin
from tests.bench.rounds import refuse_faults
from tests.bench.settings import Settings
from tests.bench.stage import BEHIND, NODES, Stage

FLOOR = "raw+headers"
ROWS = (
    FLOOR,
    "ingress",
    "transit",
    "delivery",
    "ingress direct",
    "transit direct",
    "delivery direct",
    "transit halves",
    "transit all+tenth",
)
"""Rows of one worker each; those that follow on each other in their order."""

OWN_THREADS = "client's threads"
CALLED = "client called"
COLLECTOR = "collector"
PYTHON = "Python"
SAMPLES_PER_S = 500
START_S = 30.0

_ROOT = Path(__file__).parents[2]
_LIBRARY = ("cimpl.", "librdkafka")
_COLLECTOR = ("gc_collect",)


def part_of(stack: str) -> str:
    """Return what a sample counts for: a part of the mesh, the client library, or Python itself.

    Args:
        stack: As py-spy writes it, outermost frame first, parted by semicolons.
    """
    for frame in reversed(stack.split(";")):
        if any(name in frame for name in _COLLECTOR):
            return COLLECTOR
        if any(name in frame for name in _LIBRARY):
            return CALLED
        _, ours, path = frame.partition(f"{_ROOT}/")
        if ours and not path.startswith("."):  # what is installed lives in .venv
            folders = path.partition(":")[0].split("/")[:-1]
            return "/".join(folders[:3] if folders[1:2] in (["worker"], ["lane"]) else folders[:2])
    return PYTHON


def shares_of(samples: str) -> Mapping[str, float]:
    """Return what share of the samples counts for each part.

    Args:
        samples: Lines of a stack and how often it was seen.
    """
    seen: Counter[str] = Counter()
    for line in samples.splitlines():
        stack, _, times = line.rpartition(" ")
        seen[part_of(stack)] += int(times)
    return {part: times / seen.total() for part, times in seen.most_common()}


def library_cpu_s(pid: int) -> Mapping[int, float]:
    """Return the CPU seconds of each thread that the client library has started in a process."""
    found: dict[int, float] = {}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            if (thread / "comm").read_text(encoding="utf-8").startswith("rdk:"):
                spent = (thread / "schedstat").read_text(encoding="ascii").split()[0]
                found[int(thread.name)] = int(spent) / 1e9
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One contender.

    Attributes:
        total: Microseconds of CPU per message.
        parts: The same by what they were spent on; they add up to the total.
        foreign: CPU of processes that are not ours, as a share of one core.
    """

    total: float
    parts: Mapping[str, float]
    foreign: float


@dataclass(frozen=True, slots=True)
class Found:
    """All rows by name."""

    rows: Mapping[str, Row]

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        return {
            "microseconds": {
                name: {"total": row.total, **row.parts, "foreign": row.foreign}
                for name, row in self.rows.items()
            }
        }

    def lines(self) -> Sequence[str]:
        """Return it as lines for people: a column per row, the costliest parts first."""
        width = max(map(len, self.rows)) + 2
        all_parts: Counter[str] = Counter()
        for row in self.rows.values():
            all_parts.update({part: round(spent * 1000) for part, spent in row.parts.items()})
        lines = [f"{'us per message':<22}" + "".join(f"{name:>{width}}" for name in self.rows)]
        for part, _ in all_parts.most_common():
            cells = (row.parts.get(part, 0.0) for row in self.rows.values())
            lines.append(f"{part:<22}" + "".join(f"{cell:>{width}.2f}" for cell in cells))
        totals = "".join(f"{row.total:>{width}.2f}" for row in self.rows.values())
        foreign = "".join(f"{row.foreign:>{width}.0%}" for row in self.rows.values())
        return [*lines, f"{'total':<22}{totals}", f"{'foreign CPU':<22}{foreign}"]


@contextmanager
def sampled(process: Process, directory: Path) -> Iterator[Path]:
    """Have py-spy look at a process; its samples are in the file when the context has ended.

    Raises:
        StartError: It is not installed, or may not look.
    """
    program = shutil.which("py-spy", path=f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}")
    if program is None:
        raise StartError("py-spy is not installed: pip install py-spy")
    samples, log = directory / "samples.txt", directory / "py-spy.log"
    samples.unlink(missing_ok=True)
    log.unlink(missing_ok=True)
    options = ["--native", "--threads", "--full-filenames", "--format", "raw"]
    command = [program, "record", "-p", str(process.pid), "-r", str(SAMPLES_PER_S), *options]
    watcher = spawn([*command, "-o", str(samples)], name="py-spy", log=log)
    try:
        wait_until(lambda: "Sampling" in log.read_text("utf-8"), [watcher], START_S)
        yield samples
        os.kill(watcher.pid, signal.SIGINT)
        if not watcher.wait(START_S) or not samples.exists():
            raise StartError(f"py-spy wrote nothing: {watcher.log_tail()}")
    finally:
        watcher.kill()


def drained(contender: Contender, count: int, others: Mapping[str, Sequence[int]]) -> Row:
    """Drain once and return what it cost, shared out among the library's threads and the rest."""
    contender.prepare(count)
    [process] = contender.processes()
    pin(process.pid, OWN_CORE)
    before = library_cpu_s(process.pid)
    meter = Meter({"contender": [process.pid], **others})
    contender.release()
    contender.wait(count)
    used = meter.read()
    library_s = sum(
        spent - before.get(thread, 0.0) for thread, spent in library_cpu_s(process.pid).items()
    )
    refuse_faults(contender.name, contender.finish(count))
    pin(process.pid, OTHER_CORE)
    total, library = (spent * 1e6 / count for spent in (used.cpu_s["contender"], library_s))
    parts = {OWN_THREADS: library, PYTHON: total - library}
    return Row(total=total, parts=parts, foreign=used.foreign)


def measure(directory: Path, *, messages: int, wanted: Sequence[str]) -> Found:
    """Drain each row twice."""
    settings = Settings()
    with ExitStack() as stack:
        stage = stack.enter_context(Stage(directory, find_kafka(progress=say), say))
        pin(os.getpid(), OTHER_CORE)
        load = Load(stage.bootstrap, payload=settings.payload, subjects=settings.subjects)
        stage.start_nodes()
        loop = raw_loop(stage, load, "headers")
        stack.callback(loop.running.stop, 5.0)
        positions = Positions(stage.kafka, stage.names, NODES, stage.clock.now_ms)
        stack.callback(positions.close)
        stage.hold(*BEHIND)
        contenders = [loop, *(one for group in walks(stage, load, positions) for one in group)]
        pids = [stage.worker(node).pid for node in NODES] + [loop.running.pid]
        needed = _needed(contenders, wanted)
        rows: dict[str, Row] = {}
        for count in (messages // 10, messages):  # whoever works for the first time is slower
            for one in needed:
                [process] = one.processes()
                others = [pid for pid in pids if pid != process.pid]
                ours = {"others": others, "broker": list(stage.broker.pids)}
                rows[one.name] = drained(one, count, ours)
        samples = {}
        for one in needed:
            with sampled(one.processes()[0], directory) as file:
                drained(one, messages, {})
            samples[one.name] = file.read_text(encoding="utf-8")
    return Found({name: shared_out(rows[name], samples[name]) for name in rows if name in wanted})


def _needed(contenders: Sequence[Contender], wanted: Sequence[str]) -> Sequence[Contender]:
    """Return who must work, so that each wanted row finds what the one before it leaves."""
    names = [*wanted]
    for name in wanted:
        stage, _, direct = name.partition(" ")
        chain = ("ingress", "transit", "delivery")
        if stage in chain and direct in ("", "direct"):
            names += [f"{one} {direct}".strip() for one in chain]
    return [one for one in contenders if one.name in names]


def shared_out(row: Row, samples: str) -> Row:
    """Return a row whose Python is told part by part."""
    spent = row.parts[PYTHON]
    shares = shares_of(samples)
    parts = {part: spent * share for part, share in shares.items()}
    return Row(
        total=row.total,
        parts={OWN_THREADS: row.parts[OWN_THREADS], **(parts or {PYTHON: spent})},
        foreign=row.foreign,
    )


def main(arguments: Sequence[str]) -> int:
    """Measure and tell; return the exit code."""
    parser = parser_of("breakdown", __doc__)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=ROWS, metavar="ROW")
    parser.add_argument("--messages", type=at_least(1_000), default=500_000, help="of each drain")
    options = parser.parse_args(arguments)
    run = partial(measure, messages=options.messages, wanted=options.rows)
    return carry_out(options, run, Found.lines, Found.as_json)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
