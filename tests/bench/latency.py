"""How long a message takes over one link, beside everybody else who does the same.

An open loop: a message carries the moment when it should have been sent, and the delay counts from
then to its reading, whatever became of those before it. The mesh's link leads from a client at one
node to the endpoint of another, so it is two hops; a raw loop and the peers are one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mesh.local.jars import find_kafka
from tests.bench import peers, quiet
from tests.bench.command import at_least, carry_out, parser_of, say
from tests.bench.contenders import Copier, raw_loop
from tests.bench.goals import Goal, goal_line
from tests.bench.load import Load
from tests.bench.meter import OTHER_CORE, OWN_CORE, Meter, pin
from tests.bench.peers import Sourced
from tests.bench.settings import PEERS
from tests.bench.stage import NODES, Stage

PAYLOAD = 8
HALF = 0
"""In place of a rate: half of the most that a contender can do under this load."""
RATES = (50, 1_000, HALF)
OFFERED = 100_000
"""Messages a second at which is found what a contender can do: one program publishes no more."""
OFFERED_S = 1
COLD_RATE = 1_000
GOALS_MS = {"p50": 50.0, "p99": 120.0}
TO_MIRROR = 0.5

Delays = Mapping[str, float]
Loop = Callable[[int, float], Delays]
"""Runs an open loop of so many messages a second for so many seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One loop.

    Attributes:
        rate: Messages a second.
        is_half: Whether that is half of the most that it can do.
        delays_ms: By percentile.
        foreign: CPU of processes that are not ours, as a share of one core.
    """

    name: str
    rate: int
    is_half: bool
    delays_ms: Delays
    foreign: float


@dataclass(frozen=True, slots=True)
class Found:
    """All loops, and the peers that could not be had."""

    loops: Sequence[Measured]
    absent: Mapping[str, str]
    rates: Sequence[int]

    def of(self, name: str, rate: int, cut: str) -> float | None:
        """Return a percentile, or None where it was not measured."""
        for one in self.loops:
            if (one.name, one.rate) == (name, rate) and not one.is_half:
                return one.delays_ms[cut]
        return None

    def goals(self) -> Sequence[Goal]:
        """Return what is promised for guaranteed messages over one link."""
        found: list[Goal] = []
        for rate in (rate for rate in self.rates if rate != HALF):
            for cut, limit_ms in GOALS_MS.items():
                ours = self.of("guaranteed", rate, cut)
                mirror = self.of("mm2-tuned", rate, cut)
                ratio = ours / mirror if ours is not None and mirror else None
                found.append(Goal(f"{cut} at {rate}/s, ms", limit_ms, ours))
                found.append(Goal(f"{cut} at {rate}/s to mm2-tuned", TO_MIRROR, ratio))
        return found

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        loops = [
            {
                "name": one.name,
                "rate": one.rate,
                "is_half": one.is_half,
                "ms": one.delays_ms,
                "foreign": one.foreign,
            }
            for one in self.loops
        ]
        goals = [goal.as_json() for goal in self.goals()]
        return {"loops": loops, "absent": self.absent, "goals": goals}

    def rows(self) -> Sequence[str]:
        """Return it as lines for people."""
        cuts = [f"p{cut:g}" for cut in quiet.CUTS]
        head = "".join(f"{cut:>9}" for cut in cuts)
        rows = [
            f"{one.name:<14}{one.rate:>8}{' half' if one.is_half else '':<5}"
            + "".join(f"{one.delays_ms[cut]:9.1f}" for cut in cuts)
            + f"{one.foreign:9.0%}"
            for one in self.loops
        ]
        absent = [f"{name:<14}took no part: {why}" for name, why in self.absent.items()]
        goals = [goal_line(goal.as_json()) for goal in self.goals()]
        return [
            f"{'delay, ms':<14}{'per s':>8}{'':<5}{head}{'foreign':>9}",
            *rows,
            *absent,
            "goals:",
            *goals,
        ]


def loops_of(stage: Stage, contenders: Sequence[Copier | Sourced]) -> Mapping[str, Loop]:
    """Return the open loop of each who is measured, by name."""
    names = stage.names

    def plain(source: str, target: str, subject: str) -> Loop:
        return lambda rate, length_s: quiet.one_way(
            stage, source, target, subject, rate=rate, length_s=length_s
        )

    def sourced(one: Sourced) -> Loop:
        return lambda rate, length_s: quiet.percentiles(
            one.delays_ms(rate, length_s, warm_s=quiet.WARM_S)
        )

    found: dict[str, Loop] = {
        "guaranteed": plain(f"{names.prefix}a.in.g", names.endpoint("b", "near-g"), "near/x/y"),
        "direct": plain(f"{names.prefix}a.in.d", names.endpoint("b", "near-d"), "near-d/x/y"),
    }
    for one in contenders:
        is_copier = isinstance(one, Copier)
        found[one.name] = plain(one.source, one.target, "x/y") if is_copier else sourced(one)
    return found


def most(loop: Loop) -> int:
    """Return how many messages a second a contender can do, `OFFERED` at most.

    More is offered than it can do; what it takes to the last of them is what tells.
    """
    delays_ms = loop(OFFERED, OFFERED_S)
    # The warm-up is offered as well, and what is behind by then delays all that follow.
    offered_s = quiet.WARM_S + OFFERED_S
    return int(OFFERED * offered_s / (offered_s + delays_ms[f"p{max(quiet.CUTS):g}"] / 1e3))


def measure(
    directory: Path, *, rates: Sequence[int], seconds: float, wanted: Sequence[str]
) -> Found:
    """Run every loop at every rate, in alternating order."""
    software = find_kafka(progress=say)
    with ExitStack() as stack:
        stage = stack.enter_context(Stage(directory, software, say))
        pin(os.getpid(), OTHER_CORE)
        load = Load(stage.bootstrap, payload=PAYLOAD, subjects=1)
        stage.start_nodes()
        raw = [raw_loop(stage, load, mode) for mode in ("headers", "eos")]
        for one in raw:
            stack.callback(one.running.stop, 5.0)
        others = peers.start(wanted, stage, load, PAYLOAD, say, stack)
        contenders = [*raw, *others.contenders]
        ours = [stage.worker(node) for node in NODES]
        ours += [process for one in contenders for process in one.processes()]
        for process in ours:
            pin(process.pid, OWN_CORE)
        for one in contenders:
            if isinstance(one, Sourced):
                one.release()
        loops = loops_of(stage, contenders)
        pids = {"ours": [one.pid for one in ours], "broker": stage.broker.pids}
        pids["helpers"] = others.helpers
        for loop in loops.values():  # whoever works for the first time is slower
            loop(max(*rates, COLD_RATE), min(seconds, quiet.COLD_S))
        found: list[Measured] = []
        for number, asked in enumerate(rates):
            for name in list(loops)[:: -1 if number % 2 else 1]:
                is_half = asked == HALF
                rate = most(loops[name]) // 2 if is_half else asked
                say(f"{name} at {rate}/s")
                meter = Meter(pids)
                delays = loops[name](rate, seconds)
                foreign = meter.read().foreign
                found.append(
                    Measured(
                        name=name, rate=rate, is_half=is_half, delays_ms=delays, foreign=foreign
                    )
                )
    return Found(found, others.absent, rates)


def main(arguments: Sequence[str]) -> int:
    """Measure and tell; return the exit code."""
    parser = parser_of("latency", __doc__)
    parser.add_argument(
        "--rates",
        type=at_least(HALF),
        nargs="+",
        default=RATES,
        metavar="PER_S",
        help=f"messages a second; {HALF}: half of the most that each can do",
    )
    parser.add_argument("--seconds", type=at_least(1), default=60, help="of each loop")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS)
    options = parser.parse_args(arguments)
    run = partial(measure, rates=options.rates, seconds=options.seconds, wanted=options.peers)
    return carry_out(options, run, Found.rows, Found.as_json, Found.goals)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
