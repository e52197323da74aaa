"""How the cost of a message grows: one axis, from point to point, on real Kafka.

For each point a mesh of its own is started; the points are measured forwards, then backwards, and so
on. Told are medians: CPU-seconds per million messages of all workers, of the node that takes what
is published, and of the brokers, bytes per message that brokers wrote and sent, and the rate; and
the workers' CPU as a multiple of that at the first point, in the same pass. Every message is
checked by its number in every endpoint that wants it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from mesh.errors import StartError
from mesh.local.jars import KafkaSoftware, find_kafka
from mesh.model.control import Subscription
from mesh.node.subscriptions import ENDPOINT_MAX
from mesh.wire.keys import subscription_key
from mesh.wire.subscriptions import encode_subscription
from tests.bench.chart import Curve, drawn
from tests.bench.command import at_least, carry_out, parser_of, result_file, say
from tests.bench.field import DEPTH, ENDPOINT, FIRST, STAMP, Field, Setup
from tests.bench.goals import Goal, goal_line
from tests.bench.meter import OTHER_CORE, Meter, Wire, pin
from tests.bench.peers import Driver, built

OFFERED = 5_000
"""Messages a second where filters come and go meanwhile."""

SECONDS = 8
"""How long messages are offered at a rate."""

WARM_SHARE = 4
"""A part of the messages goes ahead unmeasured."""

BYTES_MAX = 200_000_000
"""No drain is larger, whatever the payload."""

PAYLOAD_MAX = 899_000
"""With its header no message has more than a node takes."""

TO_NATS = 1 / 8
NEW_MAX = 3.0


@dataclass(frozen=True, slots=True)
class Axis:
    """What grows.

    Attributes:
        what: In words, with its unit.
        points: Values; the first is what the others are compared with.
        at: Makes the mesh of a value.
        least, most: Of numbers, what can be measured.
        words: Values that are no numbers.
    """

    what: str
    points: Sequence[str]
    at: Callable[[str], Setup]
    least: int = 1
    most: int = sys.maxsize
    words: Sequence[str] = ()

    def fault(self, point: str) -> str | None:
        """Return why a value cannot be measured, or None."""
        if point in self.words:
            return None
        if point.isdecimal() and self.least <= int(point) <= self.most:
            return None
        end = "or more" if self.most == sys.maxsize else f"to {self.most}"
        numbers = [f"a number, {self.least} {end}"] if self.least <= self.most else []
        return f"{point} cannot be measured; write {', '.join([*self.words, *numbers])}"


def _grows(name: str, **more: object) -> Callable[[str], Setup]:
    return lambda value: replace(Setup(), **{name: int(value), **more})


FILTERS_MAX = ENDPOINT_MAX - 1
"""An endpoint has no more: with one more a node refuses the last, and the bench waits for it."""

AXES: Mapping[str, Axis] = {
    "payload": Axis(
        "bytes of a payload",
        ("100", "1000", "10000", "100000", "800000"),
        _grows("payload"),
        STAMP.size,
        PAYLOAD_MAX,
    ),
    "headers": Axis("headers of clients", ("0", "1", "2", "4", "8"), _grows("headers"), 0),
    "compression": Axis(
        "codec, payloads of 1,000 bytes that compress",
        ("none", "lz4", "zstd"),
        lambda value: Setup(payload=1_000, compression=value),
        most=0,
        words=("none", "gzip", "snappy", "lz4", "zstd"),
    ),
    "subjects": Axis(
        "distinct subjects; new: one per message",
        ("300", "10", "10000", "100000", "new"),
        lambda value: Setup(subjects=0 if value == "new" else int(value)),
        words=("new",),
    ),
    "filters": Axis(
        "filters of the endpoint, known subjects",
        ("1", "1000", "100000", str(FILTERS_MAX)),
        _grows("filters"),
        most=FILTERS_MAX,
    ),
    "filters-new": Axis(
        "filters of the endpoint, each subject new",
        ("1", "1000", "100000", str(FILTERS_MAX)),
        _grows("filters", subjects=0),
        most=FILTERS_MAX,
    ),
    "hostile": Axis(
        f"filters of mixed * at {DEPTH} levels that all match, each subject new",
        ("1", "64", "1024", "16384"),
        _grows("filters", is_hostile=True, subjects=0),
        most=2**DEPTH,
    ),
    "churn": Axis(
        f"filters that come or go a second, 10,000 subjects, {OFFERED} messages/s",
        ("0", "10", "100", "1000"),
        _grows("churn", rate=OFFERED, subjects=10_000),
        0,
    ),
    "links": Axis("neighbours that want all", ("1", "2", "4", "8", "16"), _grows("links")),
    "links-split": Axis(
        "neighbours that want a part each",
        ("1", "2", "4", "8", "16"),
        _grows("links", is_split=True),
    ),
    "endpoints": Axis("endpoints that want all", ("1", "4", "16", "64"), _grows("endpoints")),
    "partitions": Axis("partitions of a data topic", ("4", "16", "64"), _grows("partitions")),
    "nodes": Axis("nodes in a chain", ("2", "3", "4", "6", "8"), _grows("nodes"), 2),
    "workers": Axis(
        "workers of each node, two lanes", ("1", "2"), _grows("workers", lanes=2), most=2
    ),
    "rate": Axis(
        "messages offered a second",
        ("1000", "2000", "5000", "10000", "20000"),
        _grows("rate"),
    ),
    "round-trip": Axis(
        "round trip to the neighbour, ms", ("0", "50", "200"), _grows("round_trip_ms"), 0
    ),
    "replication": Axis("brokers, up to three replicas", ("1", "3"), _grows("brokers")),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """One measurement of one point.

    Attributes:
        cpu, first, broker: CPU-seconds per million messages of all workers, of those of the first
            node, and of the brokers.
        written, sent: Bytes per message.
        rate: Messages a second from the release to the last delivery.
        core: Share of a core that all workers used.
        foreign: CPU of processes that are not ours, as a share of one core.
    """

    messages: int
    cpu: float
    first: float
    broker: float
    written: float
    sent: float
    rate: float
    core: float
    foreign: float


FIGURES = ("cpu", "first", "broker", "written", "sent", "rate", "core", "foreign")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One axis.

    Attributes:
        passes: Cost by point, one mapping per pass over all points.
        nats_us: Microseconds of nats-server's subject list per look-up, by point; hostile only.
        absent: Why there are none of nats-server.
    """

    axis: str
    passes: Sequence[Mapping[str, Cost]]
    nats_us: Mapping[str, float]
    absent: str

    @property
    def points(self) -> Sequence[str]:
        """Return them in their order."""
        return list(self.passes[0])

    def middle(self, point: str, figure: str) -> float:
        """Return the median of a figure."""
        return median(getattr(one[point], figure) for one in self.passes)

    def growth(self, point: str) -> float:
        """Return the workers' CPU as a multiple of that at the first point, in the same pass."""
        first = self.points[0]
        return median(one[point].cpu / max(one[first].cpu, 1e-9) for one in self.passes)

    def goals(self) -> Sequence[Goal]:
        """Return what is promised on this axis."""
        last = str(2**DEPTH)  # the whole set; a smaller one says nothing of the goal
        if self.axis == "subjects":
            is_compared = "new" in self.points[1:]
            found = self.growth("new") if is_compared else None
            return [Goal("all subjects new, to the first point", NEW_MAX, found)]
        if self.axis == "hostile":
            theirs = self.nats_us.get(last)
            ratio = self.middle(last, "cpu") / theirs if theirs else None
            return [
                Goal(f"a message of {last} filters to a look-up of nats-server", TO_NATS, ratio)
            ]
        return []

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        return {
            "axis": self.axis,
            "what": AXES[self.axis].what,
            "passes": [{point: asdict(cost) for point, cost in one.items()} for one in self.passes],
            "growth": {point: self.growth(point) for point in self.points},
            "nats_us": self.nats_us,
            "nats_absent": self.absent,
            "goals": [goal.as_json() for goal in self.goals()],
        }

    def rows(self) -> Sequence[str]:
        """Return it as lines for people."""
        head = (
            f"{'':>9}{'CPU-s/M':>9}{'ratio':>7}{'first':>8}{'broker':>8}"
            f"{'B wr':>9}{'B sent':>9}{'1/s':>9}{'core':>6}{'foreign':>9}"
        )
        lines = [AXES[self.axis].what, head]
        for point in self.points:
            cpu, first, broker, written, sent, rate, core, foreign = (
                self.middle(point, figure) for figure in FIGURES
            )
            nats = f"  nats-server {self.nats_us[point]:.1f} us" if point in self.nats_us else ""
            lines.append(
                f"{point:>9}{cpu:9.2f}{self.growth(point):7.2f}{first:8.2f}{broker:8.2f}"
                f"{written:9.0f}{sent:9.0f}{rate:9.0f}{core:6.2f}{foreign:9.0%}{nats}"
            )
        if self.absent:
            lines.append(f"nats-server took no part: {self.absent}")
        return [*lines, *(goal_line(goal.as_json()) for goal in self.goals())]

    def svg(self) -> str:
        """Return it as a picture."""
        curves = [Curve("CPU of workers", [self.growth(point) for point in self.points])]
        brokers = [self.middle(point, "broker") for point in self.points]
        curves.append(Curve("CPU of brokers", [one / max(brokers[0], 1e-9) for one in brokers]))
        return drawn(AXES[self.axis].what, self.points, curves)


class Churn:
    """Has filters of an endpoint come and go, so many a second while it is called."""

    def __init__(self, field: Field) -> None:
        self._field = field
        self._writer = field.kafka.writer("bench-churn")
        self._done = 0
        self._began_s = 0.0

    def __call__(self) -> None:
        """Write the changes that are due."""
        self._began_s = self._began_s or time.monotonic()
        due = int((time.monotonic() - self._began_s) * self._field.setup.churn)
        node = self._field.setup.names[-1]
        for number in range(self._done, due):
            # Each is wanted, and ended with the next change.
            value = None if number % 2 else encode_subscription(Subscription())
            key = subscription_key(f"{ENDPOINT}0", f"churn/{number // 2}/*")
            self._writer.produce(self._field.names.clients(node), value, key, 0)
        if due > self._done:
            self._done = due
            self._writer.flush()


def cost(setup: Setup, messages: int, software: KafkaSoftware, directory: Path) -> Cost:
    """Start a mesh, warm it up, and measure it once."""
    copies = setup.endpoints if not setup.is_split else 1
    count = max(setup.partitions, min(messages // copies, BYTES_MAX // setup.payload))
    if setup.rate:
        count = setup.rate * SECONDS
    with (
        TemporaryDirectory(prefix="mesh-bench-", dir=directory) as folder,
        Field(setup, Path(folder), software, say) as field,
    ):
        field.start()
        churn = Churn(field) if setup.churn else (lambda: None)
        _once(field, max(setup.partitions, count // WARM_SHARE), churn)
        return _once(field, count, churn)


def _once(field: Field, count: int, meanwhile: Callable[[], None]) -> Cost:
    begins = field.begins()
    release = field.publish(count, meanwhile)
    first = [one.pid for one in field.workers(FIRST)]
    others = [one.pid for one in field.workers() if one.pid not in first]
    brokers = field.brokers.pids
    meter = Meter({"first": first, "others": others, "broker": brokers})
    wire = Wire(brokers, [field.brokers.data(index + 1) for index in range(len(brokers))])
    began_s = time.monotonic()
    release()
    done_s = field.wait(count, begins)
    used, traffic = meter.read(), wire.read()
    field.check(count, begins)
    ours_s = used.cpu_s["first"] + used.cpu_s["others"]
    return Cost(
        messages=count,
        cpu=ours_s / count * 1e6,
        first=used.cpu_s["first"] / count * 1e6,
        broker=used.cpu_s["broker"] / count * 1e6,
        written=traffic.written / count,
        sent=traffic.sent / count,
        rate=count / max(done_s - began_s, 1e-3),
        core=ours_s / max(used.wall_s, 1e-3),
        foreign=used.foreign,
    )


def nats_look_ups(points: Sequence[str]) -> tuple[Mapping[str, float], str]:
    """Return the time of a look-up in nats-server's subject list by point, or why there is none."""
    try:
        driver = Driver(built(say) / "nats")
    except StartError as error:
        return {}, str(error)
    found = {}
    try:
        for point in points:
            setup = AXES["hostile"].at(point)
            filters = [one.replace("/", ".") for one in setup.more_filters()]
            subjects = [f"{setup.level(0).replace('/', '.')}.line-{n}" for n in range(1_000)]
            count = max(100, 20_000 // len(filters))
            told = driver.ask("match", filters=filters, subjects=subjects, count=count)
            found[point] = told["seconds"] / count * 1e6
    finally:
        driver.close()
    return found, ""


def measure(
    directory: Path,
    *,
    axis: str,
    points: Sequence[str],
    messages: int,
    passes: int,
    svg: Path | None,
) -> Found:
    """Measure every point in every pass, forwards and backwards in turn."""
    software = find_kafka(progress=say)
    pin(os.getpid(), OTHER_CORE)
    nats_us, absent = nats_look_ups(points) if axis == "hostile" else ({}, "")
    done: list[Mapping[str, Cost]] = []
    for number in range(passes):
        costs: dict[str, Cost] = {}
        for point in list(points)[:: -1 if number % 2 else 1]:
            costs[point] = cost(AXES[axis].at(point), messages, software, directory)
            say(
                f"{axis} {point}: {costs[point].cpu:.2f} CPU-s/M, foreign {costs[point].foreign:.0%}"
            )
        done.append({point: costs[point] for point in points})
    found = Found(axis=axis, passes=done, nats_us=nats_us, absent=absent)
    if svg is not None:
        svg.write_text(found.svg(), encoding="utf-8")
    return found


def main(arguments: Sequence[str]) -> int:
    """Measure and tell; return the exit code."""
    parser = parser_of("growth", __doc__)
    parser.add_argument("axis", choices=tuple(AXES), help="what grows")
    parser.add_argument("--points", nargs="+", help="instead of the axis's own, the first compares")
    parser.add_argument("--messages", type=at_least(100), default=100_000, help="of each drain")
    parser.add_argument("--passes", type=at_least(1), default=2, help="over all points")
    parser.add_argument("--svg", type=result_file, help="draw the curve into this file")
    options = parser.parse_args(arguments)
    axis = AXES[options.axis]
    points = options.points or axis.points
    for point in points:
        if (fault := axis.fault(point)) is not None:
            parser.error(f"--points: {fault}")
    if len(set(points)) < len(points):
        parser.error(f"--points: {' '.join(points)} has a point twice; measure each once")
    setups = [axis.at(point) for point in points]
    least = max(setup.partitions * setup.endpoints for setup in setups)
    if options.messages < least:
        parser.error(f"--messages {options.messages}: these points need {least} or more")
    run = partial(
        measure,
        axis=options.axis,
        points=points,
        messages=options.messages,
        passes=options.passes,
        svg=options.svg,
    )
    return carry_out(options, run, Found.rows, Found.as_json, Found.goals)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
