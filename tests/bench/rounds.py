"""Rounds: every contender once, in the same order, on the same broker."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from mesh.errors import StartError
from mesh.local.jars import Progress
from mesh.transport.port import KafkaCluster, TopicPartition
from tests.bench.contenders import DEADLINE_S, Contender
from tests.bench.meter import OTHER_CORE, OWN_CORE, Meter, pin
from tests.bench.settings import Settings
from tests.bench.stage import NODES, Stage

SINKS = ("sink-g", "sink-d")
REST_S = 0.3
"""Between loading and release: the broker finishes what the load left it."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One contender in one round.

    Attributes:
        wall_s: From release to the last commit.
        cpu: CPU seconds of the contender per million messages.
        broker: Likewise of the broker.
        foreign: CPU of everybody else, as a share of one core.
    """

    wall_s: float
    cpu: float
    broker: float
    foreign: float


@dataclass(slots=True)
class Round:
    """One round; `dropped` says why it does not count, or is empty."""

    figures: dict[str, Figure] = field(default_factory=dict)
    delivered: dict[str, int] = field(default_factory=dict)
    dropped: str = ""

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        return asdict(self)


class Rounds:
    """Runs rounds of the same contenders.

    Args:
        stage: The broker and the chain.
        contenders: In the order in which they are measured.
        settings: Sizes and limits.
        progress: Told how it goes.
    """

    def __init__(
        self,
        stage: Stage,
        contenders: Sequence[Contender],
        settings: Settings,
        progress: Progress,
    ) -> None:
        self._stage = stage
        self._contenders = contenders
        self._settings = settings
        self._progress = progress

    def run(self, count: int) -> Round:
        """Run one round of `count` messages per contender."""
        sinks = {name: self._stage.ends(self._sink(name)) for name in SINKS}
        done = Round()
        for contender in self._contenders:
            figure = self._measure(contender, count)
            done.figures[contender.name] = figure
            self._progress(
                f"  {contender.name:<18} {figure.cpu:6.2f} CPU-s/M, broker {figure.broker:5.2f}, "
                f"{count / figure.wall_s / 1e6:5.2f} M/s, foreign {figure.foreign:4.0%}"
            )
            if figure.foreign > self._settings.foreign and not done.dropped:
                done.dropped = f"{contender.name}: others used {figure.foreign:.0%} of a core"
        for name, before in sinks.items():
            done.delivered[name] = records_since(self._stage.kafka, before)
            if done.delivered[name] != count:
                raise StartError(f"{name} got {done.delivered[name]} of {count} messages")
        return done

    def _measure(self, contender: Contender, count: int) -> Figure:
        contender.prepare(count)
        process = contender.process()
        pin(process.pid, OWN_CORE)
        time.sleep(REST_S)
        others = [self._stage.worker(node).pid for node in NODES]
        others += [one.process().pid for one in self._contenders]
        meter = Meter(
            {
                "contender": [process.pid],
                "broker": self._stage.broker.pids,
                "others": [pid for pid in dict.fromkeys(others) if pid != process.pid],
            }
        )
        began_s = time.monotonic()
        contender.release()
        done_s = contender.wait(count)
        usage = meter.read()
        contender.finish()
        pin(process.pid, OTHER_CORE)
        millions = count / 1e6
        return Figure(
            wall_s=done_s - began_s,
            cpu=usage.cpu_s["contender"] / millions,
            broker=usage.cpu_s["broker"] / millions,
            foreign=usage.foreign,
        )

    def _sink(self, endpoint: str) -> str:
        return self._stage.names.endpoint("c", endpoint)


def records_since(kafka: KafkaCluster, begins: Mapping[TopicPartition, int]) -> int:
    """Count the committed records of partitions from some offsets on.

    Raises:
        StartError: They could not be read to their ends in time.
    """
    ends = kafka.admin().ends(list(begins))
    reader = kafka.reader("bench-count")
    reader.assign(begins)
    total = 0
    deadline_s = time.monotonic() + DEADLINE_S
    while any(reader.position(place) < end for place, end in ends.items()):
        total += len(reader.read(0.2, 5_000))
        if time.monotonic() > deadline_s:
            raise StartError(f"{next(iter(ends)).topic} could not be read to its end")
    reader.close()
    return total
