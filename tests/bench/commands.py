"""How soon commands answer: on a mesh that is well, beside the demo, and where a broker is dead.

Two nodes on two Kafka clusters, two real brokers. Every command runs in turn, so many times; told
are medians, and wall time as a multiple of `mesh --help` in the same turn. Then one broker stands
still, as a host does that hangs: told is when a command has named it, and when it has ended. With
`--demo` the same commands run in turn beside the demo, on its mesh of thirteen nodes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import write_topology
from mesh.errors import StartError
from mesh.local.fleet import Fleet
from tests.bench.command import at_least, carry_out, parser_of, say
from tests.bench.demo import running_demo
from tests.bench.goals import Goal, goal_line
from tests.bench.stage import wait_for
from tests.bench.used import used_by

HELP = "--help"
LINES = (
    "status",
    "links",
    "interest",
    "explain x/1 --from {one}",
    "route {one} {other}",
    "queue list",
    "endpoint list",
    "audit report",
    "doctor",
)
"""Command lines; two nodes are filled in."""
ENDS = ("near", "far")
DEMO_ENDS = ("tk1", "ny1")
WALL_S, CPU_S, DOCTOR_S, NAMED_S, HELP_S = 1.5, 0.45, 4.0, 2.5, 0.2
DEMO_WALL_S, DEMO_CPU_S = 2.5, 0.8
DEMO_S, SETTLE_S = 900, 60
TOPOLOGY: Mapping[str, object] = {
    "kafka": {"left": {}, "right": {}},
    "nodes": {"near": {"kafka": "left"}, "far": {"kafka": "right"}},
    "zones": {"Z": {"kind": "multi-hop", "links": [["near", "far"]]}},
}
ENDED_S = 60.0


@dataclass(frozen=True, slots=True)
class Well:
    """A command on a mesh that is well: medians.

    Attributes:
        wall_s, cpu_s: From start to end, and of the process.
        to_help: Wall time as a multiple of that of `mesh --help`.
    """

    wall_s: float
    cpu_s: float
    to_help: float


@dataclass(frozen=True, slots=True)
class Dead:
    """A command where one Kafka cluster is dead: seconds until it was named, and to the end."""

    named_s: float
    ended_s: float


@dataclass(frozen=True, slots=True)
class Found:
    """All commands; `demo` is empty where nothing was measured beside it."""

    well: Mapping[str, Well]
    dead: Mapping[str, Dead]
    demo: Mapping[str, Well]

    def goals(self) -> Sequence[Goal]:
        """Return what is promised of those that only look, and of the doctor."""
        looks = [line for line in LINES if line != "doctor"]
        goals = [
            Goal("--help, wall, s", HELP_S, self.well[HELP].wall_s),
            Goal("slowest, wall, s", WALL_S, max(self.well[line].wall_s for line in looks)),
            Goal("slowest, CPU, s", CPU_S, max(self.well[line].cpu_s for line in looks)),
            Goal("doctor, wall, s", DOCTOR_S, self.well["doctor"].wall_s),
            Goal("dead one named, s", NAMED_S, max(one.named_s for one in self.dead.values())),
        ]
        if demo := [self.demo[line] for line in looks if self.demo]:
            goals += [
                Goal("beside the demo, wall, s", DEMO_WALL_S, max(one.wall_s for one in demo)),
                Goal("beside the demo, CPU, s", DEMO_CPU_S, max(one.cpu_s for one in demo)),
            ]
        return goals

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        return {
            "well": {line: asdict(one) for line, one in self.well.items()},
            "dead": {line: asdict(one) for line, one in self.dead.items()},
            "demo": {line: asdict(one) for line, one in self.demo.items()},
            "goals": [goal.as_json() for goal in self.goals()],
        }

    def rows(self) -> Sequence[str]:
        """Return it as lines for people."""
        head = f"{'seconds':<26}{'wall':>7}{'CPU':>7}{'to help':>9}{'named':>8}{'ended':>8}"
        lines = [head]
        for line, one in self.well.items():
            dead = self.dead.get(line)
            told = "" if dead is None else f"{dead.named_s:8.2f}{dead.ended_s:8.2f}"
            lines.append(f"{_row(line, one)}{told}")
        if self.demo:
            lines.append("beside the demo")
        lines += [_row(line, one) for line, one in self.demo.items()]
        return [*lines, *(goal_line(goal.as_json()) for goal in self.goals())]


def _row(line: str, one: Well) -> str:
    shown = " ".join(_words(line, ("A", "B")))
    return f"{shown:<26}{one.wall_s:7.2f}{one.cpu_s:7.2f}{one.to_help:9.1f}"


@contextmanager
def stopped(pids: Sequence[int]) -> Iterator[None]:
    """Have processes stand still: connections are taken, and nothing is answered."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@dataclass(frozen=True, slots=True)
class Told:
    """What a command printed, and when it named what was looked for and ended, in seconds."""

    named_s: float
    ended_s: float
    out: str
    err: str


def run_until_named(name: str, *arguments: str) -> Told:
    """Run a command and note when its errors first name something."""
    began_s = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-m", "mesh", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        out: list[str] = []
        reading = threading.Thread(target=out.extend, args=(process.stdout,))
        reading.start()
        named_s, err = float("inf"), ""
        for line in process.stderr:
            err += line
            if name in line:
                named_s = min(named_s, time.monotonic() - began_s)
        process.wait(ENDED_S)
        reading.join(ENDED_S)
    return Told(named_s, time.monotonic() - began_s, "".join(out), err)


def measure(directory: Path, *, runs: int) -> Found:
    """Start the mesh, run every command in turn, then once more with one broker that hangs."""
    topology = topology_from_mapping(TOPOLOGY, name="pair")
    file = directory / "mesh.yaml"
    write_topology(topology, file)
    fleet = Fleet.start(topology, file, directory, progress=say)
    try:
        for node in topology.nodes:
            fleet.start_node(node)
        ready = [fleet.ready_file(node) for node in topology.nodes]
        wait_for(fleet, lambda: all(one.exists() for one in ready), "ready")
        where = _options(fleet, file)
        well = _in_turn(where, ENDS, runs)
        say("one Kafka cluster hangs")
        with stopped(fleet.brokers["right"].pids):
            told = {
                line: run_until_named("right", *_words(line, ENDS), *where) for line in LINES[:-2]
            }
        dead = {line: Dead(one.named_s, one.ended_s) for line, one in told.items()}
        return Found(well, dead, {})
    finally:
        fleet.stop()


def measure_demo(directory: Path, *, runs: int) -> Mapping[str, Well]:
    """Run every command in turn beside the demo."""
    say(f"the demo, for at most {DEMO_S} s")
    with running_demo(directory, DEMO_S) as demo:
        time.sleep(SETTLE_S)  # the auditor begins; that is no state that anybody looks at for long
        return _in_turn(demo.options, DEMO_ENDS, runs)


def _in_turn(where: Sequence[str], ends: tuple[str, str], runs: int) -> Mapping[str, Well]:
    turns = []
    for number in range(runs):
        say(f"turn {number + 1}")
        turns.append({line: _once(_words(line, ends), where) for line in (HELP, *LINES)})
    return {
        line: Well(
            wall_s=median(turn[line][0] for turn in turns),
            cpu_s=median(turn[line][1] for turn in turns),
            to_help=median(turn[line][0] / turn[HELP][0] for turn in turns),
        )
        for line in (HELP, *LINES)
    }


def _words(line: str, ends: tuple[str, str]) -> Sequence[str]:
    return line.format(one=ends[0], other=ends[1]).split()


def _options(fleet: Fleet, file: Path) -> Sequence[str]:
    options = ["-f", str(file)]
    for name, kafka in fleet.brokers.items():
        options += ["--bootstrap", f"{name}={kafka.bootstrap_servers}"]
    return options


def _once(command: Sequence[str], where: Sequence[str]) -> tuple[float, float]:
    """Return the wall time and the CPU of a command.

    Raises:
        StartError: It made no sense to it.
    """
    began_s = time.monotonic()
    words = [] if command == [HELP] else where
    used = used_by([sys.executable, "-m", "mesh", *command, *words])
    if used["code"] in (1, 2):
        raise StartError(f"mesh {' '.join(command)} ended with {used['code']}")
    return time.monotonic() - began_s, used["cpu_s"]


def main(arguments: Sequence[str]) -> int:
    """Measure and tell; return the exit code."""
    parser = parser_of("commands", __doc__)
    parser.add_argument("--runs", type=at_least(1), default=10, help="of each command")
    parser.add_argument("--demo", action="store_true", help="measure beside the demo too")
    options = parser.parse_args(arguments)

    def run(directory: Path) -> Found:
        found = measure(directory, runs=options.runs)
        if not options.demo:
            return found
        return replace(found, demo=measure_demo(directory, runs=options.runs))

    return carry_out(options, run, Found.rows, Found.as_json, Found.goals)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
