"""What a dead neighbour costs: memory while its backlog grows, and how fast it drains.

First some messages cross the link while both nodes live: that is the link rate. Then b is killed,
a backlog is published at a, and the peak of a's memory is read at each quarter of it. At last b is
started again, while live traffic goes on, and catches up.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from mesh.errors import StartError
from mesh.local.jars import find_kafka
from tests.bench.command import at_least, carry_out, parser_of, say
from tests.bench.contenders import MARKERS, POLL_S, Positions
from tests.bench.counting import records_from
from tests.bench.goals import Goal, goal_line
from tests.bench.load import Load, Way
from tests.bench.meter import Meter, forget_peak, peak_mb
from tests.bench.pair import Pair, places_of
from tests.bench.stage import wait_for
from tests.bench.steady import RATE, Steady

QUARTERS = 4
BATCH = 50_000
"""Messages of the backlog that become visible at once, at most."""

PAYLOAD = 100
SUBJECTS = 300
WAY = Way("load")
LIMIT_S = 900.0
RATIO = 0.7
"""What is promised: a backlog drains at least at this share of the link rate."""


_Done = TypeVar("_Done")


@dataclass(frozen=True, slots=True)
class Flow:
    """Messages that b delivered within some time.

    Attributes:
        messages: How many.
        seconds: In which time.
        cpu_s: CPU seconds that b used for them.
        foreign: CPU of processes that are not ours, as a share of one core.
    """

    messages: int
    seconds: float
    cpu_s: float
    foreign: float

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.messages / self.seconds

    def row(self, name: str) -> str:
        """Return it as a line for people."""
        cpu = self.cpu_s / self.messages * 1e6
        return (
            f"{name:<28}{self.rate:.0f} ({self.messages} messages, b {cpu:.1f} CPU-s/M, "
            f"others used {self.foreign:.0%} of a core)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One run.

    Attributes:
        messages: The backlog.
        link: What crossed before, while both nodes lived: the link rate.
        peaks_mb: Peak of a's resident memory: without a backlog, then in each quarter of it.
        fill_rate: Messages per second that were published and forwarded into the backlog.
        first_s: From the start of b to its first delivery.
        drain: From then until it had caught up, live messages included.
    """

    messages: int
    link: Flow
    peaks_mb: Sequence[float]
    fill_rate: float
    first_s: float
    drain: Flow

    @property
    def growth_mb(self) -> float:
        """By how much the highest peak with a backlog exceeds the peak without."""
        return max(self.peaks_mb[1:]) - self.peaks_mb[0]

    @property
    def ratio(self) -> float:
        """The drain rate as a share of the link rate."""
        return self.drain.rate / self.link.rate

    def goals(self) -> Sequence[Goal]:
        """Return what is promised."""
        return [Goal("drain rate to link rate", RATIO, self.ratio, at_least=True)]

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        return {
            **asdict(self),
            "growth_mb": self.growth_mb,
            "link_rate": self.link.rate,
            "drain_rate": self.drain.rate,
            "ratio": self.ratio,
            "goals": [goal.as_json() for goal in self.goals()],
        }

    def rows(self) -> Sequence[str]:
        """Return it as lines for people."""
        peaks = ", ".join(
            f"{100 * quarter // QUARTERS} %: {peak:.1f}"
            for quarter, peak in enumerate(self.peaks_mb)
        )
        return [
            f"backlog of {self.messages} messages, {PAYLOAD} bytes each; each delivered once",
            f"{'peak memory of a, MB':<28}{peaks}",
            f"{'growth of the peak, MB':<28}{self.growth_mb:.1f}",
            f"{'filling, messages/s':<28}{self.fill_rate:.0f}",
            self.link.row("link rate, messages/s"),
            self.drain.row("drain rate, messages/s"),
            f"{'ratio':<28}{self.ratio:.2f}",
            f"{'first delivery, s':<28}{self.first_s:.1f} after b's start",
            f"{'caught up, s':<28}{self.first_s + self.drain.seconds:.1f} after b's start",
            "goals:",
            *(goal_line(goal.as_json()) for goal in self.goals()),
        ]


class Bench:
    """A pair with its load, and how far each node has read.

    Args:
        pair: Both nodes run, b's subscription is known.
    """

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._load = Load(pair.bootstrap("a"), payload=PAYLOAD, subjects=SUBJECTS)
        self._near, self._far = (
            Positions(pair.kafka[node], pair.names, [node], pair.clock.now_ms) for node in "ab"
        )

    def close(self) -> None:
        """Release the readers."""
        self._near.close()
        self._far.close()

    def forward(self, count: int) -> None:
        """Publish so many; returns when a has forwarded them all."""
        while count:
            batch = min(BATCH, count)
            self._load.write(self._pair.ingress, WAY, batch)
            self._load.release()
            count -= batch
        self._wait_forwarded()

    def _wait_forwarded(self, *, markers: int = MARKERS) -> None:
        ends = self._pair.ends_at_rest("a", self._pair.ingress)
        self._wait(partial(self._near.has_passed, "a", ends, markers=markers), "forwarded by a")

    def _wait_delivered(self) -> float:
        ends = self._pair.ends_at_rest("a", self._pair.outbox)
        return self._wait(partial(self._far.has_passed, "b", ends), "delivered by b")

    def _wait(self, is_done: Callable[[], bool], what: str) -> float:
        return wait_for(self._pair.fleet, is_done, what, limit_s=LIMIT_S, pause_s=POLL_S)

    def link(self, count: int) -> Flow:
        """Have messages cross while both nodes live.

        All become visible at once, so that whoever publishes slows nobody down.
        """
        self._load.write(self._pair.ingress, WAY, count)
        meter, began_s = Meter(self._pair.pids()), time.monotonic()
        self._load.release()
        self._wait_forwarded()
        seconds = self._wait_delivered() - began_s
        usage = meter.read()
        return Flow(count, seconds, usage.cpu_s["b"], usage.foreign)

    def peak_mb(self, count: int, work: Callable[[int], _Done]) -> tuple[_Done, float]:
        """Do some work; return what it returns, and the peak of a's memory meanwhile in MB."""
        pid = self._pair.fleet.workers["a"][0].pid
        forget_peak(pid)
        done = work(count)
        return done, peak_mb(pid)

    def drain(self, backlog: int) -> tuple[float, Flow, int]:
        """Start b under live traffic until it has caught up.

        Args:
            backlog: Messages that wait for b.

        Returns:
            Seconds until its first delivery, what came from then on, live messages in all.
        """
        pair = self._pair
        before = pair.ends_at_rest("b", pair.endpoint)
        ends = pair.ends_at_rest("a", pair.outbox)
        steady = Steady(pair, RATE)
        began_s = time.monotonic()
        pair.fleet.start_node("b")
        first_s = self._wait(lambda: pair.ends("b", pair.endpoint) != before, "delivering")
        meter = Meter(pair.pids())

        def is_caught_up() -> bool:
            """Return whether b has read all that was there at the last look."""
            nonlocal ends
            is_done = self._far.has_passed("b", ends)
            ends = pair.ends("a", pair.outbox)
            return is_done

        seconds = self._wait(is_caught_up, "caught up") - first_s
        usage = meter.read()
        drained = Flow(backlog + steady.published, seconds, usage.cpu_s["b"], usage.foreign)
        live = steady.stop()
        # The last entries are plain records: here no marker is left before the ends.
        self._wait_forwarded(markers=0)
        self._wait_delivered()
        return first_s - began_s, drained, live

    def check(self, published: int) -> None:
        """Make sure that the endpoint has as many records as messages were published.

        Raises:
            StartError: It has not.
        """
        begins = dict.fromkeys(places_of(self._pair.endpoint), 0)
        found = sum(1 for _ in records_from(self._pair.kafka["b"], begins))
        if found != published:
            raise StartError(f"{self._pair.endpoint} has {found} records of {published} messages")


def measure(directory: Path, *, messages: int, link_messages: int) -> Found:
    """Run everything.

    Args:
        directory: For logs and data.
        messages: The backlog.
        link_messages: Messages that measure the link rate.

    Raises:
        StartError: Not every message was delivered exactly once, or something did not come.
    """
    with Pair(directory, find_kafka(progress=say), say) as pair:
        pair.start()
        with closing(Bench(pair)) as bench:
            bench.link(link_messages)  # whoever works for the first time is slower
            link, peak = bench.peak_mb(link_messages, bench.link)
            say(f"{link.row('link rate, messages/s')}; peak of a {peak:.1f} MB; killing b")
            peaks = [peak]
            pair.fleet.kill_node("b")
            began_s = time.monotonic()
            for quarter in range(QUARTERS):
                count = messages * (quarter + 1) // QUARTERS - messages * quarter // QUARTERS
                _, peak = bench.peak_mb(count, bench.forward)
                peaks.append(peak)
                say(f"{100 * (quarter + 1) // QUARTERS} %: peak of a {peak:.1f} MB")
            fill_rate = messages / (time.monotonic() - began_s)
            first_s, drained, live = bench.drain(messages)
            say(f"{drained.row('drain rate, messages/s')}; counting what was delivered")
            bench.check(2 * link_messages + messages + live)
    return Found(
        messages=messages,
        link=link,
        peaks_mb=peaks,
        fill_rate=fill_rate,
        first_s=first_s,
        drain=drained,
    )


def main(arguments: Sequence[str]) -> int:
    """Measure and tell; return the exit code."""
    parser = parser_of("backlog", __doc__)
    parser.add_argument("--messages", type=at_least(QUARTERS), default=1_000_000)
    parser.add_argument("--link-messages", type=at_least(1), default=200_000)
    options = parser.parse_args(arguments)
    run = partial(measure, messages=options.messages, link_messages=options.link_messages)
    return carry_out(options, run, Found.rows, Found.as_json, Found.goals)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
