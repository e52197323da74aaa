"""The auditor on what a mesh has written, beside Spark's own Kafka source that counts the same.

For each point a mesh's topics are filled on a real broker; then the source counts them, and then
the auditor reads and judges them, each in a JVM of its own with the same settings. A point is
`SUBJECTS:ENDPOINTS`: distinct subjects in turn, and endpoints that share them. Rates and processor
times are without the first third of the records, in which the JVMs compile.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import psutil

from mesh.errors import StartError
from mesh.local.brokers import STEADY_JVM, EmbeddedKafka
from mesh.local.embedded import start_together
from mesh.local.jars import find_kafka
from streaming.config import QUERY_VERSION
from streaming.job.snapshots import Snapshots
from streaming.job.state import State
from streaming.tables.digest import BLOCK_OFFSETS
from tests.bench.audit_count import CORES
from tests.bench.audit_load import FRAME, TOPOLOGY, Written
from tests.bench.command import at_least, carry_out, parser_of, say
from tests.bench.goals import Goal, goal_line
from tests.bench.meter import Meter, peak_mb
from tests.streaming.planted import PARTITIONS
from tests.streaming.pour import Reader

HEAP_MB = 512
MEMORY = "1500m"
WARM = 1 / 3
LIMIT_S = 600.0
SAVE_LIMIT_S, LOOK_S = 5.0, 0.05
RATIO = 0.4
GROWTH = 1.5
DRIVER_CPU = 3.0
STATE_BYTES = 64
SAVE_S = 0.05
RESIDENT_MB = 2_200.0


class Point(NamedTuple):
    """What is drawn along: distinct subjects, and endpoints that share them."""

    subjects: int
    endpoints: int

    def __str__(self) -> str:
        """Return it as options spell it."""
        return f"{self.subjects}:{self.endpoints}"

    @property
    def folder(self) -> str:
        """Return the same as Hadoop takes it for a path."""
        return f"{self.subjects}-{self.endpoints}"


POINTS = (Point(1, 10), Point(64, 10), Point(4_096, 10), Point(4_096, 200))
SMOKE = (Point(64, 10),)
SUBJECTS = Point(1, 10), Point(4_096, 10)
ENDPOINTS = Point(4_096, 10), Point(4_096, 200)


@dataclass(frozen=True, slots=True)
class Figures:
    """One point.

    Attributes:
        records: Of all topics.
        counted_per_s: Records per second that the source counts.
        counted_cpu: CPU-seconds of that per million records.
        per_s: Records per second that the auditor takes and judges.
        driver_cpu: CPU-seconds of its Python per million messages.
        jvm_cpu: CPU-seconds of its JVM per million messages.
        cpu: Both per million records.
        drained_s: From the last record's judgement until all is certified.
        resident_mb: Peaks of both together.
        state_bytes: Of the saved blocks, per open block and endpoint.
        save_s: CPU of saving the state after a batch.
        foreign: Share of a core that others used meanwhile.
    """

    records: int
    counted_per_s: float
    counted_cpu: float
    per_s: float
    driver_cpu: float
    jvm_cpu: float
    cpu: float
    drained_s: float
    resident_mb: float
    state_bytes: float
    save_s: float
    foreign: float

    @property
    def ratio(self) -> float:
        """Return the auditor's rate as a share of the source's."""
        return self.per_s / self.counted_per_s

    def goals(self, name: str) -> Sequence[Goal]:
        """Return what is promised of one point alone."""
        return [
            Goal(f"{name}, rate to counting", RATIO, self.ratio, at_least=True),
            Goal(f"{name}, Python, CPU-s/M", DRIVER_CPU, self.driver_cpu),
        ]

    def as_json(self) -> dict[str, float]:
        """Return it as plain values."""
        return {**asdict(self), "ratio": self.ratio}


@dataclass(frozen=True, slots=True)
class Found:
    """All points."""

    messages: int
    points: Mapping[Point, Figures]

    def _growth(self, ends: tuple[Point, Point]) -> float | None:
        first, last = (self.points.get(one) for one in ends)
        return None if first is None or last is None else last.cpu / first.cpu

    def goals(self) -> Sequence[Goal]:
        """Return what is promised."""
        every = self.points.values()
        return [
            *(goal for point, one in self.points.items() for goal in one.goals(str(point))),
            Goal("CPU of 4,096 subjects to 1", GROWTH, self._growth(SUBJECTS)),
            Goal("CPU of 200 endpoints to 10", GROWTH, self._growth(ENDPOINTS)),
            Goal(
                "state, bytes per certificate", STATE_BYTES, max(one.state_bytes for one in every)
            ),
            Goal("saving it, CPU-s", SAVE_S, max(one.save_s for one in every)),
            Goal("resident, MB", RESIDENT_MB, max(one.resident_mb for one in every)),
        ]

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        return {
            "messages": self.messages,
            "points": {str(one): of.as_json() for one, of in self.points.items()},
            "goals": [goal.as_json() for goal in self.goals()],
        }

    def rows(self) -> Sequence[str]:
        """Return it as lines for people."""
        head = (
            f"{'point':<10}{'counted/s':>10}{'judged/s':>10}{'ratio':>7}{'Python':>8}{'JVM':>7}"
            f"{'drained':>9}{'MB':>7}{'state B':>9}{'save s':>8}{'others':>8}"
        )
        lines = [head]
        for point, one in self.points.items():
            lines.append(
                f"{point!s:<10}{one.counted_per_s:>10,.0f}{one.per_s:>10,.0f}{one.ratio:>7.2f}"
                f"{one.driver_cpu:>8.1f}{one.jvm_cpu:>7.1f}{one.drained_s:>9.1f}"
                f"{one.resident_mb:>7.0f}{one.state_bytes:>9.0f}{one.save_s:>8.3f}"
                f"{one.foreign:>8.2f}"
            )
        lines.append("Python and JVM: CPU-seconds per million messages")
        return [*lines, *(goal_line(goal.as_json()) for goal in self.goals())]


class Auditor:
    """The auditor's process on a preloaded mesh, and what it says.

    Args:
        written: The mesh.
        kafka: Its broker.
        folder: For its file and checkpoint.
        batch: Records of a micro-batch.
    """

    def __init__(self, written: Written, kafka: EmbeddedKafka, folder: Path, batch: int) -> None:
        self._written, self._kafka, self._folder = written, kafka, folder
        folder.mkdir()
        file, self._log = folder / "mesh.yaml", folder / "auditor.log"
        file.write_text(TOPOLOGY.format(prefix=written.prefix), encoding="utf-8")
        sizes = ["--cores", str(CORES), "--memory", MEMORY, "--batch", str(batch)]
        where = ["--bootstrap", f"k1={written.address}", "--checkpoint", str(folder / "checkpoint")]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "streaming", "-f", str(file), *where, *sizes], stderr=log
            )
        self._readers: list[Reader] = []
        self._status = self.reader("status")

    def reader(self, table: str) -> Reader:
        """Return what follows one of its topics."""
        reader = Reader(self._written.address, f"{self._written.prefix}audit.{table}")
        self._readers.append(reader)
        return reader

    def pids(self) -> Mapping[str, Sequence[int]]:
        """Return its processes that work, and the broker."""
        [driver] = psutil.Process(self._process.pid).children()
        [jvm] = [one for one in driver.children(recursive=True) if _is_java(one)]
        return {"driver": [driver.pid], "jvm": [jvm.pid], "kafka": self._kafka.pids}

    def steps(self) -> Iterator[tuple[int, bool]]:
        """Yield how many records are read, and whether all is certified, until that is so.

        Raises:
            StartError: That takes too long, or the auditor has ended.
        """
        deadline_s, told = time.monotonic() + LIMIT_S, 0
        while True:
            self._status.read()
            status = self._status.table.get("position", {})
            read = status.get("offsets", 0)
            is_done = read >= self._written.records and not status["uncertified"]
            if len(self._status.log) > told:
                told = len(self._status.log)
                yield read, is_done
            if is_done:
                return
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                last = self._log.read_text("utf-8", "replace").splitlines()[-5:]
                raise StartError("\n".join(["the auditor does not come to an end", *last]))

    def saved(self) -> State:
        """Return the state with the most certificates of open blocks.

        It is saved a moment after the auditor has told of them, and blocks are closed ten seconds
        later.

        Raises:
            StartError: No state has any.
        """
        snapshots = Snapshots(self._folder / "checkpoint" / QUERY_VERSION / "state")
        deadline_s, best = time.monotonic() + SAVE_LIMIT_S, snapshots.load()
        while best is None or best.certifier.waiting or not _certified(best):
            if time.monotonic() > deadline_s:
                break
            time.sleep(LOOK_S)
            state = snapshots.load()
            if state is not None and (best is None or _certified(state) > _certified(best)):
                best = state
        if best is None or not _certified(best):
            raise StartError("the auditor saved no state that holds what it has certified")
        return best

    def stop(self) -> None:
        """End it."""
        for reader in self._readers:
            reader.close()
        self._process.terminate()
        self._process.wait(60)


def _is_java(process: psutil.Process) -> bool:
    """Return whether a process is a JVM; of those that begin with it, some end at once."""
    with suppress(psutil.NoSuchProcess):
        return process.name() == "java"
    return False


def measure(directory: Path, *, points: Sequence[Point], messages: int, batch: int) -> Found:
    """Fill topics, count and audit, point by point."""
    found: dict[Point, Figures] = {}
    for point in points:
        with broker(directory / point.folder) as kafka:
            written = Written(kafka.bootstrap_servers, "bench.", *point)
            say(f"{point}: writing {messages:,} messages")
            written.write(messages)
            say(f"{point}: counting {written.records:,} records")
            counted = _counted(written, batch)
            say(f"{point}: counted {counted[0]:,.0f} a second; auditing")
            found[point] = _audited(
                written, kafka, directory / f"audit-{point.folder}", batch, counted
            )
    return Found(messages, found)


@contextmanager
def broker(directory: Path) -> Iterator[EmbeddedKafka]:
    """Run a Kafka broker for one point."""
    software = find_kafka(progress=say)
    kafka = EmbeddedKafka("k1", directory, software, jvm=STEADY_JVM, heap_mb=HEAP_MB)
    start_together([kafka])
    try:
        yield kafka
    finally:
        kafka.stop()


def _counted(written: Written, batch: int) -> tuple[float, float]:
    """Return records per second, and CPU-seconds per million, of the source that counts."""
    told = [written.address, written.prefix, str(batch), MEMORY]
    command = [sys.executable, "-m", "tests.bench.audit_count", *told]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StartError("\n".join(["could not count", *done.stderr.splitlines()[-5:]]))
    steps = json.loads(done.stdout)
    end_s, count, end_cpu = steps[-1]
    if count != written.records:
        raise StartError(f"{count} of {written.records} records were counted")
    begin_s, known, begin_cpu = next(one for one in steps if one[1] >= WARM * count)
    news = count - known
    return news / (end_s - begin_s), (end_cpu - begin_cpu) / news * 1e6


def _audited(
    written: Written, kafka: EmbeddedKafka, folder: Path, batch: int, counted: tuple[float, float]
) -> Figures:
    """Run the auditor until all is certified."""
    auditor = Auditor(written, kafka, folder, batch)
    try:
        known, read_s, begin_s, meter = 0, 0.0, 0.0, None
        for read, _ in auditor.steps():
            if meter is None and read >= WARM * written.records:
                known, begin_s, meter = read, time.monotonic(), Meter(auditor.pids())
            if not read_s and read >= written.records:
                read_s = time.monotonic()
        if meter is None or known == written.records:
            raise StartError("one batch takes all records: ask for more messages")
        used, drained_s = meter.read(), time.monotonic() - read_s
        state = auditor.saved()  # before its blocks are closed, ten seconds from now
        pids = auditor.pids()
        resident_mb = sum(peak_mb(pids[name][0]) for name in ("driver", "jvm"))
        _refuse_faults(auditor, written)
    finally:
        auditor.stop()
    news = written.records - known
    messages = news / written.records * written.messages
    return Figures(
        records=written.records,
        counted_per_s=counted[0],
        counted_cpu=counted[1],
        per_s=news / (read_s - begin_s),
        driver_cpu=used.cpu_s["driver"] / messages * 1e6,
        jvm_cpu=used.cpu_s["jvm"] / messages * 1e6,
        cpu=(used.cpu_s["driver"] + used.cpu_s["jvm"]) / news * 1e6,
        drained_s=drained_s,
        resident_mb=resident_mb,
        state_bytes=_bytes_of(state),
        save_s=_save_s(state, folder, batch * written.messages // written.records),
        foreign=used.foreign,
    )


def _refuse_faults(auditor: Auditor, written: Written) -> None:
    """Refuse figures of an auditor that has found something, or has not certified all."""
    findings, certificates = auditor.reader("findings"), auditor.reader("certificates")
    findings.wait(lambda _: True)
    delivered = written.messages
    certificates.wait(lambda told: sum(one["delivered"] for one in told.values()) >= delivered)
    findings.read()
    if findings.table or not all(one["equal"] for one in certificates.table.values()):
        raise StartError(f"the auditor found faults: {[*findings.table.values()][:3]}")


def _certified(state: State) -> int:
    """Return how many certificates open blocks have."""
    return sum(len(block.issued) for _, _, block in state.certifier.blocks.walk())


def _bytes_of(state: State) -> float:
    blocks = state.certifier.blocks
    return sum(map(len, Snapshots(Path()).packed(blocks))) / _certified(state)


def _save_s(state: State, folder: Path, messages: int) -> float:
    """Return the CPU of saving a batch of so many messages.

    The blocks that it has read have changed, and those that it has certified.
    """
    snapshots, blocks = Snapshots(folder / "again"), state.certifier.blocks
    snapshots.save(0, state)
    changed = 2 * (messages // BLOCK_OFFSETS + PARTITIONS)
    newest = sorted(blocks.walk(), key=lambda found: found[1], reverse=True)
    for _, _, block in newest[:changed]:
        block.stamp += 1
    began_s = time.process_time()
    snapshots.save(1, state)
    return time.process_time() - began_s


def _point(text: str) -> Point:
    try:
        subjects, endpoints = map(int, text.split(":"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: write SUBJECTS:ENDPOINTS, 64:10") from None
    if subjects < 1 or endpoints < 1:
        raise argparse.ArgumentTypeError(f"{text}: both must be 1 or more")
    return Point(subjects, endpoints)


def main(arguments: Sequence[str]) -> int:
    """Measure and tell; return the exit code."""
    parser = parser_of("audit", __doc__)
    parser.add_argument("--points", nargs="+", type=_point, metavar="SUBJECTS:ENDPOINTS")
    parser.add_argument("--messages", type=at_least(2 * FRAME), help="per point")
    parser.add_argument("--batch", type=at_least(1), help="records of a micro-batch")
    parser.add_argument("--smoke", action="store_true", help="one point, tiny: shows that it works")
    options = parser.parse_args(arguments)
    run = partial(
        measure,
        points=options.points or (SMOKE if options.smoke else POINTS),
        messages=options.messages or (6_000 if options.smoke else 600_000),
        batch=options.batch or (6_000 if options.smoke else 150_000),
    )
    return carry_out(options, run, Found.rows, Found.as_json, Found.goals)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
