"""What roles cost who does not use them: a worker with its tree layer and without, by turns.

A hub with eight links stands still, carries guaranteed messages from one neighbour to another, and
direct ones. Its process is started again for each turn; all else runs on. One run of a pair says
little, the ratios of many pairs have an interval.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from mesh.errors import StartError
from mesh.local.jars import find_kafka
from mesh.local.processes import spawn
from mesh.model.frames import MessageClass
from mesh.model.record_headers import SUBJECT_HEADER
from tests.bench import meter, quiet
from tests.bench.command import at_least, carry_out, parser_of, say
from tests.bench.goals import Goal, goal_line
from tests.bench.stage import PARTITIONS, Sink, Stage, wait_for

HUB, FROM, TO = "h", "n1", "n2"
LINKS = 8
NEIGHBOURS = [f"n{number}" for number in range(1, LINKS + 1)]

TOPOLOGY = f"""\
apiVersion: mesh/v1
kind: Mesh
metadata: {{name: hub}}
spec:
  kafka: {{here: {{}}}}
  nodes: {{{", ".join(f"{node}: {{kafka: here}}" for node in (HUB, *NEIGHBOURS))}}}
  zones:
    STAR: {{kind: multi-hop, links: [{", ".join(f"[{HUB}, {node}]" for node in NEIGHBOURS)}]}}
"""

SINKS = (Sink("kept", TO, "kept/>"), Sink("quick", TO, "quick/>", MessageClass.DIRECT))
RATE = 50
OFFERED = 2_000
"""Guaranteed messages a second: as fast as it goes, how many share a frame is a matter of chance,
and the cost of a message with it."""
BURST_S = 0.01
WITH, WITHOUT = "with", "without"
STUDENT = 2.1
"""Of 20 pairs, two-sided 95 %: the interval of a mean is so many standard errors wide each way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One run of the hub's worker.

    Attributes:
        idle: Share of a core that it uses when nothing is published.
        cpu_s: Processor time per million guaranteed messages that it hands on, half of them
            published at the hub itself, beyond what it uses in that time for nothing.
        direct_ms: The median delay of direct messages over two links.
    """

    idle: float
    cpu_s: float
    direct_ms: float


@dataclass(slots=True)
class Found:
    """All turns, in pairs."""

    turns: Mapping[str, list[Turn]] = field(default_factory=lambda: {WITH: [], WITHOUT: []})

    def ratio(self, of: str) -> tuple[float, float] | None:
        """Return the mean ratio of the pairs, and where its 95 % interval ends."""
        pairs = zip(self.turns[WITH], self.turns[WITHOUT], strict=True)
        ratios = [getattr(one, of) / getattr(other, of) for one, other in pairs]
        if len(ratios) < 2:
            return None
        mean = statistics.mean(ratios)
        return mean, mean + STUDENT * statistics.stdev(ratios) / len(ratios) ** 0.5

    def goals(self) -> Sequence[Goal]:
        """Return what is promised."""
        idle = {how: statistics.median(one.idle for one in self.turns[how]) for how in self.turns}
        ends = {of: self.ratio(of) for of in ("cpu_s", "direct_ms")}
        return [
            Goal("idle with 8 links, share of a core", 0.01, idle[WITH] - idle[WITHOUT]),
            *(
                Goal(f"{name}, ratio, end of interval", 1.03, end[1] if end else None)
                for name, end in zip(("CPU of a hop", "direct p50"), ends.values(), strict=True)
            ),
        ]

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        turns = {
            how: [{of: getattr(one, of) for of in Turn.__slots__} for one in some]
            for how, some in self.turns.items()
        }
        return {"turns": turns, "goals": [goal.as_json() for goal in self.goals()]}

    def rows(self) -> Sequence[str]:
        """Return it as lines for people."""

        def line(of: str, name: str, scale: float = 1.0) -> str:
            medians = (
                statistics.median(getattr(one, of) for one in self.turns[how]) * scale
                for how in (WITH, WITHOUT)
            )
            found = self.ratio(of)
            ratio = "" if found is None else f"  ratio {found[0]:.3f}, to {found[1]:.3f}"
            return f"{name:<36}" + "  ".join(f"{one:8.2f}" for one in medians) + ratio

        return [
            f"{'medians of ' + str(len(self.turns[WITH])) + ' pairs':<36}{WITH:>8}  {WITHOUT:>8}",
            line("idle", "idle, % of a core", 100),
            line("cpu_s", "hop, CPU-s per million messages"),
            line("direct_ms", f"direct over two links, {RATE}/s, p50, ms"),
            *(goal_line(goal.as_json()) for goal in self.goals()),
        ]


def start_hub(stage: Stage, how: str) -> None:
    """Start the hub's worker anew; return when it serves."""
    fleet = stage.fleet
    for former in fleet.workers.get(HUB, ()):
        former.kill()
    fleet.ready_file(HUB).unlink(missing_ok=True)
    command = list(fleet.command(HUB, 0))
    if how == WITHOUT:
        command[command.index("mesh")] = "tests.bench.without_roles"
    log = fleet.directory / "log" / f"{HUB}-{how}.log"
    fleet.workers[HUB] = [spawn(command, name=f"hub {how}", log=log)]
    wait_for(fleet, fleet.ready_file(HUB).exists, "ready")


def carried(stage: Stage, messages: int) -> tuple[float, float]:
    """Have the hub hand on guaranteed messages, its own and a neighbour's; return CPU-s and s."""
    sources, target = [f"{stage.names.prefix}{node}.in.g" for node in (FROM, HUB)], SINKS[0]
    topic = stage.names.endpoint(TO, target.name)
    before = sum(stage.ends_at_rest(topic).values())
    hub = stage.worker(HUB).pid
    cpu_s, began_s = meter.cpu_s(hub), time.monotonic()
    writer = stage.kafka.writer("load")
    for number in range(messages):
        while number > (time.monotonic() - began_s) * OFFERED:
            time.sleep(BURST_S)
        subject = [(SUBJECT_HEADER, b"kept/%d" % (number % 5))]
        partition, source = number % PARTITIONS, sources[number // PARTITIONS % 2]
        writer.produce(source, b"%0100d" % number, None, partition, headers=subject)
    if writer.flush():
        raise StartError(f"{sources}: messages were not acknowledged")
    writer.close()

    def are_there() -> bool:
        places = list(stage.ends(topic))
        return sum(stage.kafka.admin().stable_ends(places).values()) - before >= messages

    wait_for(stage.fleet, are_there, f"delivered at {topic}", pause_s=0.2)
    return meter.cpu_s(hub) - cpu_s, time.monotonic() - began_s


def carries_direct(stage: Stage, source: str, topic: str) -> None:
    """Return when the hub hands direct messages on, of each partition.

    After a kill its successor skips what may have gone out already, for a second. Spec: K18.
    """
    writer = stage.kafka.writer("first")
    subject = [(SUBJECT_HEADER, b"quick/x")]

    def come() -> bool:
        before = stage.ends(topic)
        for partition in range(PARTITIONS):
            writer.produce(source, b"", None, partition, headers=subject)
        writer.flush()
        time.sleep(0.2)
        return all(end > before[place] for place, end in stage.ends(topic).items())

    wait_for(stage.fleet, come, f"direct messages at {topic}")
    time.sleep(0.5)  # what is still under way is no message of the measurement
    writer.close()


def take_turn(stage: Stage, how: str, *, seconds: float, messages: int) -> Turn:
    """Measure the hub in one way."""
    start_hub(stage, how)
    names = stage.names
    source, target = f"{names.prefix}{FROM}.in.d", names.endpoint(TO, "quick")
    carried(stage, messages // 10)  # what is done at the first message alone is done
    carries_direct(stage, source, target)
    direct = quiet.one_way(stage, source, target, "quick/x", rate=RATE, length_s=seconds / 4)
    cpu_s, took_s = carried(stage, messages)
    time.sleep(1)
    idle = quiet.idle(stage, [HUB], seconds)[HUB]["core"]
    hop_s = (cpu_s - idle * took_s) / messages * 1e6
    return Turn(idle=idle, cpu_s=hop_s, direct_ms=direct["p50"])


def measure(directory: Path, *, pairs: int, seconds: float, messages: int) -> Found:
    """Measure both by turns; each pair begins with the other."""
    found = Found()
    software = find_kafka(progress=say)
    with Stage(directory, software, say, TOPOLOGY, SINKS) as stage:
        stage.start_nodes()
        for pair in range(pairs):
            for how in (WITH, WITHOUT) if pair % 2 else (WITHOUT, WITH):
                turn = take_turn(stage, how, seconds=seconds, messages=messages)
                found.turns[how].append(turn)
                say(f"pair {pair + 1} of {pairs}, {how}: {turn}")
    return found


def main(arguments: Sequence[str]) -> int:
    """Measure and tell; return the exit code."""
    parser = parser_of("roles_cost", __doc__)
    parser.add_argument("--pairs", type=at_least(1), default=20)
    parser.add_argument("--seconds", type=at_least(4), default=20, help="idle, of each turn")
    parser.add_argument("--messages", type=at_least(100), default=30_000, help="of each turn")
    options = parser.parse_args(arguments)
    run = partial(measure, pairs=options.pairs, seconds=options.seconds, messages=options.messages)
    return carry_out(options, run, Found.rows, Found.as_json, Found.goals)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
