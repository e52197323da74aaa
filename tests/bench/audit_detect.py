"""How soon the auditor finds a fault: from when its last record is acknowledged to the finding.

The topics of three nodes in a row are written on a real broker as the nodes would write them, with
a message every quarter of a second that is healthy, so that no block is ever quiet. Into that a
fault of each kind is planted, one after the other, and its finding is waited for on the auditor's
own topic; and so again, with other messages. The first rounds are in no figure: the JVM compiles.

Eight faults in four seconds are a burst, and what one makes doubtful is read again while the others
wait. `--alone` waits for each finding before the next fault is planted.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from mesh.errors import StartError
from tests.bench.audit import broker
from tests.bench.command import at_least, carry_out, parser_of, say
from tests.bench.goals import Goal, goal_line
from tests.bench.quiet import percentiles
from tests.streaming.planted import ROUTE, Plant, Record
from tests.streaming.pour import Pour, Reader

PREFIX = "bench."
PERCENTS = (50, 95, 100)
TRICKLE_S = 0.25
SPACING_S = (0.0, 1.0)
"""Between two faults of a round: they meet a micro-batch at any moment of it."""

START_S, ROUND_S = 240.0, 120.0
WARM = 3

LINKS = 2
LIMITS_S: Mapping[str, float] = {
    "loop": 3,
    "duplicate": 3,
    "gap": 3,
    "disorder": 3,
    "unplanned-path": 3,
    "unexpected": 6,
    "corrupt": 6,
    "missing": 5 + LINKS,
}
"""Kind of finding -> seconds in which 19 of 20 are to be told."""

TOPOLOGY = """\
apiVersion: mesh/v1
kind: Mesh
metadata: {{name: bench}}
spec:
  prefix: {prefix}
  kafka: {{k1: {{}}}}
  nodes: {{a: {{kafka: k1}}, b: {{kafka: k1}}, c: {{kafka: k1}}}}
  zones:
    Z: {{kind: multi-hop, links: [[a, b], [b, c]]}}
"""


@dataclass(frozen=True, slots=True)
class Found:
    """Kind -> seconds to each finding of it."""

    seconds: Mapping[str, Sequence[float]]

    def _told(self, kind: str) -> Mapping[str, float]:
        told = percentiles(self.seconds[kind], PERCENTS)
        return {name: round(value, 2) for name, value in told.items() if value is not None}

    def goals(self) -> Sequence[Goal]:
        """Return what is promised."""
        return [
            Goal(f"{kind}, s, p95", limit_s, self._told(kind)["p95"])
            for kind, limit_s in LIMITS_S.items()
        ]

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        return {
            "seconds": {kind: self._told(kind) for kind in LIMITS_S},
            "goals": [goal.as_json() for goal in self.goals()],
        }

    def rows(self) -> Sequence[str]:
        """Return it as lines for people."""
        lines = [f"{kind:<15} {self._told(kind)}" for kind in LIMITS_S]
        return [*lines, *(goal_line(goal.as_json()) for goal in self.goals())]


def _carried(plant: Plant, kind: str, count: int = 1) -> Sequence[int]:
    """Take messages of a subject of their own over both links, and deliver them to nobody."""
    return plant.carry(count, [], subject=f"{kind}/x")


def _wrong(plant: Plant, kind: str, path: Sequence[str] = ROUTE, **more: Record | None) -> int:
    """Deliver a message by a path, or another than was published; return its offset."""
    offsets = _carried(plant, kind)
    plant.deliver(f"c/{kind}", offsets, path, subject=f"{kind}/x", **more)  # type: ignore[arg-type]
    return offsets[0]


def _duplicate(plant: Plant, kind: str) -> int:
    offset = _wrong(plant, kind)
    plant.deliver(f"c/{kind}", [offset], ROUTE, subject=f"{kind}/x")
    return offset


def _gap(plant: Plant, kind: str) -> int:
    """Leave out of an outbox what its next frame says was before it."""
    lost, offset = plant.publish("a", f"{kind}/x", 2)
    plant.frame("a->b", [offset], path=["a"], source="a.in.g", previous=lost, subject=f"{kind}/x")
    plant.send("a", "a.to.b.g", 0, "a.in.g", offset)
    plant.progress("a", "a.in.g", 0, offset + 1)
    return lost


def _disorder(plant: Plant, kind: str) -> int:
    first, second = _carried(plant, kind, 2)
    plant.deliver(f"c/{kind}", [second, first], ROUTE, subject=f"{kind}/x")
    return first


def _unexpected(plant: Plant, kind: str) -> int:
    offsets = _carried(plant, "else")
    plant.deliver(f"c/{kind}", offsets, ROUTE, subject="else/x")
    return offsets[0]


FAULTS: Mapping[str, Callable[[Plant, str], int]] = {
    "loop": partial(_wrong, path=(*ROUTE, "b", "c")),
    "duplicate": _duplicate,
    "gap": _gap,
    "disorder": _disorder,
    "unplanned-path": partial(_wrong, path=("a", "c")),
    "unexpected": _unexpected,
    "corrupt": partial(_wrong, like=Record(b"k", b"swapped")),
    "missing": lambda plant, kind: _carried(plant, kind)[0],
}
"""Kind -> plants a fault of it, and returns the offset of the message that its finding names."""


@dataclass
class Trial:
    """The written mesh, its auditor's findings, and what is waited for.

    Attributes:
        plant, pour: Of the mesh.
        findings: What the auditor has found.
        alive: Returns whether the auditor runs.
        planted: Kind -> message, and when its last record was acknowledged.
        seconds: Kind -> time to each finding.
        seen: How many words about findings were looked at.
    """

    plant: Plant
    pour: Pour
    findings: Reader
    alive: Callable[[], bool]
    planted: dict[str, tuple[str, float]] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    seen: int = 0
    trickled_s: float = 0.0
    beaten_s: float = 0.0

    def subscribe(self) -> None:
        """Ask for what each kind is about, and for what is healthy, at endpoints of their own."""
        self.pour.create("b/healthy", "c/healthy", *(f"c/{kind}" for kind in FAULTS))
        self.plant.identities()
        for kind in FAULTS:
            if kind != "gap":  # else what is left out would be missing too
                self.plant.subscribe("c", kind, f"{kind}/>")
        for node in ("b", "c"):
            version = self.plant.subscribe(node, "healthy", "healthy/>")
            self.plant.cuts_everywhere(node, version)

    def trickle(self) -> None:
        """Let the mesh live: a message at times, and a heartbeat of each node every second."""
        now_s = time.monotonic()
        if now_s - self.trickled_s < TRICKLE_S:
            return
        self.trickled_s = now_s
        self.plant.carry(1, ["b/healthy", "c/healthy"], subject="healthy/x")
        if now_s - self.beaten_s >= 1:
            self.beaten_s = now_s
            self.plant.beat()
        self.pour.pour()

    def plant_one(self, kind: str) -> None:
        """Plant a fault of a kind."""
        self.trickle()
        offset = FAULTS[kind](self.plant, kind)
        self.pour.pour()
        self.planted[kind] = (f"{PREFIX}a.in.g/0/0/{offset}", time.monotonic())

    def look(self) -> None:
        """Read what was found, and keep how long that took."""
        self.findings.read()
        log, came_s = self.findings.log[self.seen :], self.findings.came_s[self.seen :]
        self.seen += len(log)
        for (_, told), at_s in zip(log, came_s, strict=True):
            message, since_s = self.planted.get("" if told is None else told["kind"], ("", 0.0))
            if told is not None and message in told["ids"]:
                self.seconds.setdefault(told["kind"], []).append(at_s - since_s)
                del self.planted[told["kind"]]

    def wait(self, deadline_s: float) -> None:
        """Let the mesh live until all that was planted is found.

        Raises:
            StartError: That takes too long, or the auditor has ended.
        """
        end_s = time.monotonic() + deadline_s
        while self.planted:
            self.trickle()
            self.look()
            if time.monotonic() > end_s or not self.alive():
                raise StartError(f"not found: {', '.join(self.planted)}")

    def round(self, draw: random.Random, *, is_alone: bool) -> None:
        """Plant a fault of each kind at any moment, and wait until all are found.

        Args:
            draw: Chance.
            is_alone: Each is found before the next one is planted.
        """
        kinds = list(FAULTS)
        draw.shuffle(kinds)
        for kind in kinds:
            until_s = time.monotonic() + draw.uniform(*SPACING_S)
            while time.monotonic() < until_s:
                self.trickle()
                self.look()
            self.plant_one(kind)
            if is_alone:
                self.wait(ROUND_S)
        self.wait(ROUND_S)


def measure(directory: Path, *, rounds: int, seed: int, is_alone: bool) -> Found:
    """Plant and wait, round by round."""
    with ExitStack() as stack:
        kafka = stack.enter_context(broker(directory / "kafka"))
        address = kafka.bootstrap_servers
        plant = Plant(PREFIX, at_ms=int(time.time() * 1000))
        pour = Pour(plant, {"k1": address, "k2": address})
        file = directory / "mesh.yaml"
        file.write_text(TOPOLOGY.format(prefix=PREFIX), encoding="utf-8")
        where = ["--bootstrap", f"k1={address}", "--checkpoint", str(directory / "checkpoint")]
        log = stack.enter_context((directory / "auditor.log").open("wb"))
        process = subprocess.Popen(
            [sys.executable, "-m", "streaming", "-f", str(file), *where], stderr=log
        )
        stack.callback(process.wait, 60)
        stack.callback(process.terminate)
        findings = Reader(address, f"{PREFIX}audit.findings")
        stack.callback(findings.close)
        trial = Trial(plant, pour, findings, lambda: process.poll() is None)
        trial.subscribe()
        trial.plant_one("missing")
        trial.wait(START_S)
        draw = random.Random(seed)
        for number in range(WARM + rounds):
            if number == WARM:
                trial.seconds.clear()
            trial.round(draw, is_alone=is_alone)
            say(f"round {number + 1} of {WARM + rounds}")
        known = {one["endpoint"] or one["link"] for one in findings.table.values()}
        if strange := known - {"a->b", *(f"c/{kind}" for kind in FAULTS)}:
            raise StartError(f"the auditor found faults that nobody planted, at {strange}")
    return Found(trial.seconds)


def main(arguments: Sequence[str]) -> int:
    """Measure and tell; return the exit code."""
    parser = parser_of("audit_detect", __doc__)
    parser.add_argument("--rounds", type=at_least(1), default=20)
    parser.add_argument("--seed", type=at_least(0), default=1)
    parser.add_argument("--alone", action="store_true", help="one fault at a time")
    options = parser.parse_args(arguments)
    run = partial(measure, rounds=options.rounds, seed=options.seed, is_alone=options.alone)
    return carry_out(options, run, Found.rows, Found.as_json, Found.goals)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
