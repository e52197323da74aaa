"""How long deliveries pause when one of two workers of a node is killed, or stopped in order.

Node b has two lanes and two workers, one lane each. Under a steady load a worker is killed with
`kill -9`, later one is stopped with SIGTERM: the partitions of its lane pause until the other
worker has taken the lane over, those of the other lane should not pause at all.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient

from mesh.errors import StartError
from mesh.local.jars import find_kafka
from mesh.local.processes import Process
from tests.bench.command import at_least, carry_out, parser_of, say
from tests.bench.goals import Goal, goal_line
from tests.bench.meter import Meter
from tests.bench.pair import Pair
from tests.bench.report import Spread, spread
from tests.bench.stage import PARTITIONS, wait_for
from tests.bench.steady import RATE, Arrivals, Steady

LANES = 2
QUIET_S = 3.0
"""How long nothing is disturbed before each disturbance; its silences are told for comparison."""

TAIL_S = 2.0
"""How long silences are noted after the taking: it must not be followed by another pause."""

LIMIT_S = 90.0
FLOOR_SETTING = "group.min.session.timeout.ms"
CRASH_S = {6_000: 8.0, 2_000: 3.0}
"""Longest takeover after a crash that is promised, by the member timeout in ms."""

CLEAN_S = 1.0


@dataclass(frozen=True, slots=True)
class Pauses:
    """Longest silences around one disturbance, in seconds, one per partition.

    Attributes:
        taken: Of the lanes of the worker that went.
        others: Of the lanes of the other one.
        before: Of all, while nothing was disturbed.
        returned: Of the lanes that the worker got when it was started again.
        foreign: CPU that processes which are not ours used, as a share of one core.
    """

    taken: Sequence[float]
    others: Sequence[float]
    before: Sequence[float]
    returned: Sequence[float]
    foreign: float

    @property
    def text(self) -> str:
        """Return it for people."""
        return f"its lanes {max(self.taken):.2f} s, the others {max(self.others):.2f} s"


@dataclass(slots=True)
class Found:
    """All rounds of one run."""

    member_timeout_ms: int
    crashes: list[Pauses] = field(default_factory=list)
    stops: list[Pauses] = field(default_factory=list)
    messages: int = 0
    faults: int = 0

    def figures(self) -> Mapping[str, Spread]:
        """Return the spread of each figure over rounds and partitions, in seconds."""
        every = [*self.crashes, *self.stops]
        return {
            "crash takeover": spread([s for one in self.crashes for s in one.taken]),
            "survivor at a crash": spread([s for one in self.crashes for s in one.others]),
            "clean hand-over": spread([s for one in self.stops for s in one.taken]),
            "survivor at a clean stop": spread([s for one in self.stops for s in one.others]),
            "hand-over to a new worker": spread([s for one in every for s in one.returned]),
            "undisturbed": spread([s for one in every for s in one.before]),
        }

    def foreign(self) -> float:
        """Return what others used of a core in the worst round; much of it lengthens silences."""
        return max(one.foreign for one in [*self.crashes, *self.stops])

    def goals(self) -> Sequence[Goal]:
        """Return what is promised, judged by the worst."""
        found = self.figures()
        crash_s = CRASH_S[self.member_timeout_ms]
        return [
            Goal("crash takeover, s, worst", crash_s, found["crash takeover"]["max"]),
            Goal("clean hand-over, s, worst", CLEAN_S, found["clean hand-over"]["max"]),
        ]

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        return {
            **asdict(self),
            "figures": self.figures(),
            "foreign": self.foreign(),
            "goals": [goal.as_json() for goal in self.goals()],
        }

    def rows(self) -> Sequence[str]:
        """Return it as lines for people."""
        rows = [
            f"{name:<26}{one['median']:7.2f}{one['max']:8.2f}"
            for name, one in self.figures().items()
        ]
        return [
            f"member timeout {self.member_timeout_ms} ms, {len(self.crashes)} rounds",
            f"{'silence, s':<26}{'p50':>7}{'max':>8}",
            *rows,
            f"{self.messages} messages, {self.faults} lost, doubled or out of order",
            f"other processes used up to {self.foreign():.0%} of a core",
            "goals:",
            *(goal_line(goal.as_json()) for goal in self.goals()),
        ]


class Group:
    """The workers of b as the brokers see them: members that own lanes."""

    def __init__(self, pair: Pair) -> None:
        self._admin = AdminClient({"bootstrap.servers": pair.bootstrap("b"), "log_level": 2})
        self._name = pair.names.lanes_group("b")

    def lanes(self) -> Mapping[str, frozenset[int]]:
        """Return the lanes of each member, or nothing while they are being shared out."""
        asked = self._admin.describe_consumer_groups([self._name], request_timeout=10.0)
        group = asked[self._name].result()
        if group.state is not ConsumerGroupState.STABLE:
            return {}
        return {
            member.member_id: frozenset(at.partition for at in member.assignment.topic_partitions)
            for member in group.members
        }


@dataclass(slots=True)
class Disturber:
    """Has a worker of b go, and notes what pauses."""

    pair: Pair
    group: Group
    steady: Steady
    arrivals: Arrivals

    def crash(self, index: int) -> Pauses:
        """Kill a worker with SIGKILL, and start it again afterwards."""
        return self._without(index, is_clean=False)

    def stop(self, index: int) -> Pauses:
        """Stop a worker with SIGTERM, and start it again afterwards."""
        return self._without(index, is_clean=True)

    def _without(self, index: int, *, is_clean: bool) -> Pauses:
        fleet = self.pair.fleet
        before = self._shared_out()
        quiet_s = time.monotonic()
        time.sleep(QUIET_S)
        process = fleet.workers["b"][index]
        staying = {
            name: [pid for pid in pids if pid != process.pid]
            for name, pids in self.pair.pids().items()
        }
        meter, gone_s = Meter(staying), time.monotonic()
        if is_clean:
            process.stop()
        else:
            fleet.kill_worker("b", index)
        self._wait_delivered(process)
        time.sleep(TAIL_S)
        foreign, end_s = meter.read().foreign, time.monotonic()
        after = self.group.lanes()
        lost = [lanes for member, lanes in before.items() if member not in after]
        if len(lost) != 1 or len(after) != 1:
            raise StartError(f"{process.name} went, but the group had {before} and has {after}")
        fleet.start_worker("b", index)
        shared = self._shared_out()
        [given] = [lanes for member, lanes in shared.items() if member not in after]
        whole = frozenset(range(LANES))
        return Pauses(
            taken=self._silences(lost[0], gone_s, end_s),
            others=self._silences(whole - lost[0], gone_s, end_s),
            before=self._silences(whole, quiet_s, gone_s),
            returned=self._silences(given, end_s, time.monotonic()),
            foreign=foreign,
        )

    def _silences(self, lanes: frozenset[int], from_s: float, to_s: float) -> Sequence[float]:
        """Return the longest silence of each partition of these lanes."""
        mine = [at for at in range(PARTITIONS) if at % LANES in lanes]
        return [self.arrivals.silence_s(at, from_s, to_s) for at in mine]

    def _wait_delivered(self, ended: Process | None = None) -> None:
        """Wait until something published from now on is delivered in every partition."""
        number = self.steady.published
        is_delivered = partial(self.arrivals.has_all_since, number)
        wait_for(self.pair.fleet, is_delivered, "delivered", limit_s=LIMIT_S, ended=ended)

    def _shared_out(self) -> Mapping[str, frozenset[int]]:
        """Wait until each worker has a lane and all lanes deliver; return the lanes."""

        lanes: Mapping[str, frozenset[int]] = {}

        def is_shared() -> bool:
            nonlocal lanes
            lanes = self.group.lanes()
            return sorted(map(len, lanes.values())) == [1] * LANES

        wait_for(self.pair.fleet, is_shared, "shared out among two workers", limit_s=LIMIT_S)
        self._wait_delivered()
        return lanes


def measure(directory: Path, *, rounds: int, member_timeout_ms: int) -> Found:
    """Run all rounds.

    Args:
        directory: For logs and data.
        rounds: Of a crash and a clean stop each.
        member_timeout_ms: The shortest that the brokers allow, which the workers take.
    """
    settings = {FLOOR_SETTING: str(member_timeout_ms)}
    found = Found(member_timeout_ms)
    with Pair(directory, find_kafka(progress=say), say, lanes=LANES, settings=settings) as pair:
        pair.start(workers=LANES)
        arrivals = Arrivals(pair)
        steady = Steady(pair, RATE)
        disturber = Disturber(pair, Group(pair), steady, arrivals)
        for number in range(rounds):
            index = number % LANES
            found.crashes.append(disturber.crash(index))
            say(f"round {number + 1}, kill -9 of worker {index}: {found.crashes[-1].text}")
            found.stops.append(disturber.stop(index))
            say(f"round {number + 1}, SIGTERM to worker {index}: {found.stops[-1].text}")
        found.messages = steady.stop()
        last = found.messages - PARTITIONS
        is_delivered = partial(arrivals.has_all_since, last)
        wait_for(pair.fleet, is_delivered, "delivered to the last", limit_s=LIMIT_S)
        arrivals.stop()
        found.faults = arrivals.faults
    return found


def main(arguments: Sequence[str]) -> int:
    """Measure and tell; return the exit code."""
    parser = parser_of("takeover", __doc__)
    parser.add_argument("--rounds", type=at_least(1), default=3)
    parser.add_argument("--member-timeout-ms", type=int, choices=tuple(CRASH_S), default=6_000)
    options = parser.parse_args(arguments)
    run = partial(measure, rounds=options.rounds, member_timeout_ms=options.member_timeout_ms)
    return carry_out(options, run, Found.rows, Found.as_json, Found.goals)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
