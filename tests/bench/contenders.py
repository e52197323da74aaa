"""Who is measured: what each reads, how its work is let loose, and when it is done."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from mesh.errors import StartError
from mesh.local.processes import Process, spawn
from mesh.model.facts import SourceAt
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.transport.following import Follower
from mesh.transport.port import KafkaCluster, TopicPartition
from mesh.wire.state import decode_fact
from tests.bench.counting import Numbers, count_numbers
from tests.bench.load import FAR, FAST, HALVES, NEAR, TENTH, WHOLE, Load, Way
from tests.bench.stage import BEHIND, SINKS, Sink, Stage

POLL_S = 0.03
DEADLINE_S = 300.0
START_S = 90.0
STILL_S = 0.25
"""Who commits by itself has written everything once its topic has not grown for so long."""

MARKERS = 1
"""The last entry of a topic written in transactions is a marker, which no position passes."""

INGRESS = "a"
TRIED = 100
"""Messages that a peer copies before it is said to have started."""


class Contender(Protocol):
    """One measurement of a round.

    Attributes:
        name: What it is called.
        uses_kafka: Whether the broker works for it.
    """

    name: str
    uses_kafka: bool

    def processes(self) -> Sequence[Process]:
        """Return who is measured."""

    def prepare(self, count: int) -> None:
        """Have `count` messages ready, seen by nobody."""

    def release(self) -> None:
        """Let it go."""

    def wait(self, count: int) -> float:
        """Return when it is done; the moment of the last sign of work, monotonic seconds."""

    def finish(self, count: int) -> Sequence[Numbers]:
        """Leave things as they were; return what arrived where, or nothing if it is on its way."""


def wait_until(is_done: Callable[[], bool], who: Sequence[Process], limit_s: float) -> float:
    """Ask until it is so; return when it was.

    Raises:
        StartError: It did not come, or one of these processes ended.
    """
    deadline_s = time.monotonic() + limit_s
    while not is_done():
        for one in who:
            if not one.is_alive():
                raise StartError(f"{one.name} ended: {one.log_tail()}")
        if time.monotonic() > deadline_s:
            raise StartError(f"{who[0].name} was not done after {limit_s:.0f} s; log: {who[0].log}")
        time.sleep(POLL_S)
    return time.monotonic()


def wait_still(size: Callable[[], int]) -> float:
    """Wait until something has not grown for a while; return when it last had."""
    last, last_s = size(), time.monotonic()
    time.sleep(STILL_S)
    while (now := size()) != last:
        last, last_s = now, time.monotonic()
        time.sleep(STILL_S)
    return last_s


@dataclass(slots=True)
class Copier:
    """A program of its own that copies one plain topic to another.

    Attributes:
        way: Subjects of what it copies; None for records without headers.
    """

    name: str
    stage: Stage
    load: Load
    source: str
    target: str
    running: Process
    way: Way | None = None
    uses_kafka: bool = True
    _before: Mapping[TopicPartition, int] = field(default_factory=dict)

    def processes(self) -> Sequence[Process]:
        """Return the program."""
        return [self.running]

    def prepare(self, count: int) -> None:
        """Write the messages."""
        self._before = self.stage.ends(self.target)
        self.load.write(self.source, self.way, count)

    def release(self) -> None:
        """Commit them."""
        self.load.release()

    def wait(self, count: int) -> float:
        """Wait until the target has them all and grows no more.

        Markers of transactions count among the entries, so the number alone is not enough.
        """
        return self.wait_within(count, DEADLINE_S)

    def wait_within(self, count: int, limit_s: float) -> float:
        """Like `wait`, with a limit."""
        done_s = wait_until(lambda: self._grown() >= count, self.processes(), limit_s)
        return max(done_s, wait_still(self._grown))

    def _grown(self) -> int:
        return sum(self.stage.ends(self.target).values()) - sum(self._before.values())

    def finish(self, count: int) -> Sequence[Numbers]:
        """Count what arrived."""
        found = count_numbers(self.stage.kafka, self._before, lambda number: number < count, count)
        return [found]

    def try_out(self) -> Copier:
        """Have it copy something, so that it is known to work.

        Raises:
            StartError: It does not, and is stopped.
        """
        try:
            self.prepare(TRIED)
            self.release()
            self.wait_within(TRIED, START_S)
        except StartError:
            self.running.kill()
            raise
        return self


def raw_loop(stage: Stage, load: Load, mode: str = "") -> Copier:
    """Start a raw loop: bare, with `headers`, or exactly once (`eos`)."""
    name = f"raw+{mode}" if mode else "raw"
    topic = f"bench.{name}".replace("+", "-")
    source, target = f"{topic}.in", f"{topic}.out"
    for one in (source, target):
        stage.create(one)
    log = stage.directory / "log" / f"{name}.log"
    script = str(Path(__file__).with_name("raw.py"))
    command = [sys.executable, script, stage.bootstrap, source, target, mode]
    process = spawn(command, name=name, log=log)
    wait_until(lambda: log.exists() and "ready" in log.read_text("utf-8"), [process], START_S)
    way = WHOLE if mode == "headers" else None
    return Copier(name, stage, load, source, target, process, way)


class Positions:
    """How far nodes of one lane have committed their reading, as their progress topics tell.

    Args:
        kafka: Kafka cluster of the nodes.
        names: Topic names of the mesh.
        nodes: Their names.
        now_ms: Clock.
    """

    def __init__(
        self,
        kafka: KafkaCluster,
        names: TopicNames,
        nodes: Sequence[str],
        now_ms: Callable[[], int],
    ) -> None:
        self._follower = Follower(kafka, "bench-positions", now_ms)
        self._names = {names.progress(node): node for node in nodes}
        self._follower.add([TopicPartition(topic, 0) for topic in self._names])
        self.next: dict[tuple[str, TopicPartition], int] = {}

    def refresh(self) -> None:
        """Read what is new."""
        for record in self._follower.poll():
            fact = decode_fact(record.value() or b"")
            if isinstance(fact, SourceAt):
                self.next[self._names[record.topic()], fact.at] = fact.next

    def has_passed(
        self, node: str, ends: Mapping[TopicPartition, int], *, markers: int = MARKERS
    ) -> bool:
        """Read what is new; say whether a node has committed its reading up to these ends.

        Args:
            node: Who reads.
            ends: Ends of its sources.
            markers: Entries before each end that no position passes.
        """
        self.refresh()
        return all(self.next.get((node, at), 0) >= end - markers for at, end in ends.items())

    def close(self) -> None:
        """Release the reader."""
        self._follower.close()


@dataclass(slots=True)
class Walk:
    """Messages of one way on their walk through the nodes, from the ingress of a to endpoints.

    Attributes:
        measured: Nodes that are measured, neighbours of each other: one, or all of a walk.
        after: Nodes that do their part unmeasured, when the measured ones are done.
        begins: Whether messages are written for it, or were left by the walk before.
        ends: Whether the endpoints have everything at its end, or a later walk goes on.
    """

    name: str
    stage: Stage
    load: Load
    positions: Positions
    way: Way
    measured: Sequence[str]
    after: Sequence[str] = ()
    message_class: MessageClass = MessageClass.GUARANTEED
    begins: bool = True
    ends: bool = True
    uses_kafka: bool = True
    _sinks: Mapping[Sink, Mapping[TopicPartition, int]] = field(default_factory=dict)

    def processes(self) -> Sequence[Process]:
        """Return the workers that are measured."""
        return [self.stage.worker(node) for node in self.measured]

    def prepare(self, count: int) -> None:
        """Write the messages, and bring them to where the walk begins."""
        self._sinks = {sink: self.stage.ends(self._endpoint(sink)) for sink in self._wanted()}
        if self.begins:
            self.load.write(self._source(INGRESS), self.way, count)
        if self.begins and self.measured[0] != INGRESS:
            self.load.release()
            self._pass(INGRESS)
        # Those that follow have nothing to read yet; the first one is let loose by `release`.
        self.stage.free(*self.measured[1:])

    def _wanted(self) -> Sequence[Sink]:
        return [sink for sink in SINKS if sink.prefix.startswith(f"{self.way.name}/")]

    def _endpoint(self, sink: Sink) -> str:
        return self.stage.names.endpoint(sink.node, sink.name)

    def _source(self, node: str) -> str:
        names = self.stage.names
        if node == INGRESS:
            return names.ingress(node, self.message_class)
        return names.outbox(BEHIND[node], node, self.message_class)

    def release(self) -> None:
        """Commit the messages, or let the first node read its neighbour."""
        if self.measured[0] == INGRESS:
            self.load.release()
        else:
            self.stage.free(self.measured[0])

    def wait(self, count: int) -> float:
        """Wait until each has committed its reading; a direct writer's topic grows no more."""
        done_s = 0.0
        for node in self.measured:
            done_s = self._pass(node)
        if self.message_class is MessageClass.DIRECT:
            wait_still(lambda: sum(sum(self.stage.ends(at).values()) for at in self._targets()))
        return done_s

    def _targets(self) -> Sequence[str]:
        if self.ends:
            return [self._endpoint(sink) for sink in self._wanted()]
        last = self.measured[-1]
        behind = [node for node, before in BEHIND.items() if before == last]
        return [self.stage.names.outbox(last, node, self.message_class) for node in behind]

    def _pass(self, node: str) -> float:
        """Wait until a node has committed the reading of its whole source."""
        source = self._source(node)
        is_plain = self.message_class is MessageClass.DIRECT and node != INGRESS
        markers = 0 if is_plain else MARKERS
        ends = self.stage.ends_at_rest(source)

        def has_passed() -> bool:
            return self.positions.has_passed(node, ends, markers=markers)

        return wait_until(has_passed, [self.stage.worker(node)], DEADLINE_S)

    def finish(self, count: int) -> Sequence[Numbers]:
        """Have the nodes behind do their part, hold all back again, and count what arrived."""
        for node in self.after:
            self.stage.free(node)
            self._pass(node)
        self.stage.hold(*(node for node in (*self.measured, *self.after) if node != INGRESS))
        if not self.ends:
            return []
        return [
            count_numbers(
                self.stage.kafka, begins, self.load.numbers(self.way, sink.prefix, count), count
            )
            for sink, begins in self._sinks.items()
        ]


def walks(stage: Stage, load: Load, positions: Positions) -> Sequence[Sequence[Walk]]:
    """Return what the mesh is measured with: walks that follow on each other stand together."""

    def walk(name: str, way: Way, *measured: str, **more: Any) -> Walk:
        return Walk(name, stage, load, positions, way, measured, **more)

    direct = {"message_class": MessageClass.DIRECT}
    first, middle, last = {"ends": False}, {"begins": False, "ends": False}, {"begins": False}
    return [
        [
            walk("ingress", WHOLE, "a", **first),
            walk("transit", WHOLE, "b", **middle),
            walk("delivery", WHOLE, "c", **last),
        ],
        [
            walk("ingress direct", FAST, "a", **first, **direct),
            walk("transit direct", FAST, "b", **middle, **direct),
            walk("delivery direct", FAST, "c", **last, **direct),
        ],
        [walk("transit halves", HALVES, "b", after=["c", "s"])],
        [walk("transit all+tenth", TENTH, "b", after=["c", "s"])],
        [walk("one link", NEAR, "a", "b")],
        [walk("four nodes", FAR, "a", "b", "c", "d")],
    ]
