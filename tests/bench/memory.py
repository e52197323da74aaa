"""What a worker's process holds in memory, and what one more of something adds to it.

For each point a mesh of its own is started on real Kafka. Told is the resident size of the worker
that takes what is published and of the one that delivers, once it rests, and its peak while it
worked; and how much each more of what grows has added since the first point.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from mesh.local.jars import KafkaSoftware, find_kafka
from mesh.local.processes import Process
from mesh.model.frames import MessageClass
from tests.bench.command import carry_out, parser_of, say
from tests.bench.contenders import wait_still
from tests.bench.field import FIRST, Field, Setup
from tests.bench.meter import forget_peak, peak_mb

SETTLE_S = 60.0
STILL = 6
"""So many looks, half a second apart, must show the same size."""

_LOOK_S = 0.5
_SAME = 0.01


@dataclass(frozen=True, slots=True)
class Kind:
    """What grows.

    Attributes:
        what: In words.
        points: Its values; the first is what the others are compared with.
        at: Makes the mesh of a value.
        messages: How many are published for a value before anything is told.
        holds: Whether the last node reads none of them until all have left the first.
    """

    what: str
    points: Sequence[int]
    at: Callable[[int], Setup]
    messages: Callable[[int], int] = lambda _value: 0
    holds: bool = False


KINDS: Mapping[str, Kind] = {
    "filters": Kind(
        "filters of an endpoint", (1, 1_000, 100_000, 200_000), lambda value: Setup(filters=value)
    ),
    "subjects": Kind(
        "distinct subjects seen",
        (100, 10_000, 100_000, 500_000),
        lambda value: Setup(subjects=value),
        messages=lambda value: max(value, 10_000),
    ),
    "neighbours": Kind("neighbours", (1, 2, 4, 8, 16), lambda value: Setup(links=value)),
    "backlog": Kind(
        "messages that wait before the last node",
        (1_000, 100_000, 500_000),
        lambda _value: Setup(),
        messages=lambda value: value,
        holds=True,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Resident sizes at one point, in MB.

    Attributes:
        first, last: Of the worker that takes what is published, and of one that delivers.
        first_peak, last_peak: While they worked.
    """

    first: float
    last: float
    first_peak: float
    last_peak: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Sizes by point."""

    kind: str
    sizes: Mapping[int, Size]

    def each(self, point: int, worker: str) -> float:
        """Return the bytes that one more has added to a worker since the first point."""
        first = next(iter(self.sizes))
        grown = getattr(self.sizes[point], worker) - getattr(self.sizes[first], worker)
        return float(grown * 1e6 / max(1, point - first))

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        return {
            "kind": self.kind,
            "what": KINDS[self.kind].what,
            "mb": {str(point): asdict(size) for point, size in self.sizes.items()},
            "bytes_each": {
                str(point): {worker: self.each(point, worker) for worker in ("first", "last")}
                for point in list(self.sizes)[1:]
            },
        }

    def rows(self) -> Sequence[str]:
        """Return it as lines for people."""
        lines = [
            f"resident MB by {KINDS[self.kind].what}; bytes that each more has added",
            f"{'':>9}{'first':>9}{'peak':>9}{'each':>9}{'last':>9}{'peak':>9}{'each':>9}",
        ]
        is_first = True
        for point, size in self.sizes.items():
            first, last = (
                "" if is_first else f"{self.each(point, worker):.0f}"
                for worker in ("first", "last")
            )
            lines.append(
                f"{point:>9}{size.first:9.1f}{size.first_peak:9.1f}{first:>9}"
                f"{size.last:9.1f}{size.last_peak:9.1f}{last:>9}"
            )
            is_first = False
        return lines


def resident_mb(process: Process) -> float:
    """Return the resident size of a process."""
    return float(psutil.Process(process.pid).memory_info().rss / 1e6)


def at_rest_mb(process: Process) -> float:
    """Return the resident size of a process once it stays the same, or after a minute."""
    deadline_s = time.monotonic() + SETTLE_S
    seen: list[float] = []
    while time.monotonic() < deadline_s:
        seen = [*seen[-STILL + 1 :], resident_mb(process)]
        if len(seen) == STILL and max(seen) - min(seen) <= _SAME * max(seen):
            break
        time.sleep(_LOOK_S)
    return seen[-1]


def size_at(kind: Kind, value: int, software: KafkaSoftware, directory: Path) -> Size:
    """Start a mesh, feed it, and tell what its workers hold."""
    setup = kind.at(value)
    with (
        TemporaryDirectory(prefix="mesh-bench-", dir=directory) as folder,
        Field(setup, Path(folder), software, say) as field,
    ):
        field.start()
        [first], [last] = field.workers(FIRST), field.workers(setup.names[-1])
        for process in first, last:
            forget_peak(process.pid)
        if count := kind.messages(value):
            _feed(field, count, holds=kind.holds)
        return Size(
            first=at_rest_mb(first),
            last=at_rest_mb(last),
            first_peak=peak_mb(first.pid),
            last_peak=peak_mb(last.pid),
        )


def _feed(field: Field, count: int, *, holds: bool) -> None:
    names = field.setup.names
    begins = field.begins()
    release = field.publish(count)
    if holds:
        field.fleet.cut(names[1], [FIRST])
    release()
    if holds:
        outbox = list(field.places(field.names.outbox(FIRST, names[1], MessageClass.GUARANTEED)))
        wait_still(lambda: sum(field.kafka.admin().ends(outbox).values()))
        field.fleet.cut(names[1], [])
    field.wait(count, begins)
    field.check(count, begins)


def measure(directory: Path, *, kind: str, points: Sequence[int]) -> Found:
    """Measure every point."""
    software = find_kafka(progress=say)
    sizes: dict[int, Size] = {}
    for point in points:
        sizes[point] = size_at(KINDS[kind], point, software, directory)
        say(f"{kind} {point}: {sizes[point].first:.1f} MB, {sizes[point].last:.1f} MB")
    return Found(kind=kind, sizes=sizes)


def main(arguments: Sequence[str]) -> int:
    """Measure and tell; return the exit code."""
    parser = parser_of("memory", __doc__)
    parser.add_argument("kind", choices=tuple(KINDS), help="what grows")
    parser.add_argument(
        "--points", nargs="+", type=int, help="instead of its own, growing; the first compares"
    )
    options = parser.parse_args(arguments)
    points: Sequence[int] = options.points or KINDS[options.kind].points
    if points[0] < 1 or sorted(set(points)) != list(points):
        parser.error(f"--points {' '.join(map(str, points))}: write growing numbers, from 1 on")
    run = partial(measure, kind=options.kind, points=points)
    return carry_out(options, run, Found.rows, Found.as_json)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
