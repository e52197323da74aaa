"""Who is measured: what each reads, how its work is let loose, and when it is done."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from mesh.codec.state import decode_progress
from mesh.errors import StartError
from mesh.local.jars import KafkaSoftware
from mesh.local.processes import Process, spawn
from mesh.model.frames import MessageClass
from mesh.model.state import ProgressKind
from mesh.model.topics import TopicNames
from mesh.transport.following import Follower
from mesh.transport.port import KafkaCluster, TopicPartition
from tests.bench import mirror
from tests.bench.load import Load
from tests.bench.stage import Stage

POLL_S = 0.03
DEADLINE_S = 300.0
STILL_S = 0.25
"""A direct writer has handed over everything once its topic has not grown for so long."""


MARKERS = 1
"""The last entry of a topic written in transactions is a marker, which no position passes."""


class Contender(Protocol):
    """One measurement of a round."""

    name: str

    def process(self) -> Process:
        """Return who is measured."""

    def prepare(self, count: int) -> None:
        """Have `count` messages ready, seen by nobody."""

    def release(self) -> None:
        """Let it go."""

    def wait(self, count: int) -> float:
        """Return when it is done; the moment of the last sign of work, monotonic seconds."""

    def finish(self) -> None:
        """Leave things as they were."""


def _grown(stage: Stage, topic: str) -> Callable[[], int]:
    before = sum(stage.ends(topic).values())
    return lambda: sum(stage.ends(topic).values()) - before


def _wait(is_done: Callable[[], bool], who: Process, pause_s: float = POLL_S) -> float:
    deadline_s = time.monotonic() + DEADLINE_S
    while not is_done():
        if not who.is_alive():
            raise StartError(f"{who.name} ended: {who.log_tail()}")
        if time.monotonic() > deadline_s:
            raise StartError(f"{who.name} was not done after {DEADLINE_S:.0f} s; log: {who.log}")
        time.sleep(pause_s)
    return time.monotonic()


@dataclass(slots=True)
class Copier:
    """A program of its own that copies one plain topic to another."""

    name: str
    stage: Stage
    load: Load
    source: str
    target: str
    running: Process
    _done: Callable[[], int] = field(init=False)

    def process(self) -> Process:
        """Return the program."""
        return self.running

    def prepare(self, count: int) -> None:
        """Write the messages."""
        self._done = _grown(self.stage, self.target)
        self.load.write(self.source, "g", count)

    def release(self) -> None:
        """Commit them."""
        self.load.release()

    def wait(self, count: int) -> float:
        """Wait until the target has them all."""
        return _wait(lambda: self._done() >= count, self.running)

    def finish(self) -> None:
        """Do nothing."""


def raw_loop(stage: Stage, load: Load, *, with_headers: bool) -> Copier:
    """Start a raw loop."""
    name = "raw+headers" if with_headers else "raw"
    source, target = f"bench.{name}.in".replace("+", "-"), f"bench.{name}.out".replace("+", "-")
    for topic in (source, target):
        stage.create(topic)
    script = Path(__file__).with_name("raw.py")
    log = stage.directory / "log" / f"{name}.log"
    options = ["headers"] if with_headers else []
    process = spawn(
        [sys.executable, str(script), stage.bootstrap, source, target, *options], name=name, log=log
    )
    _wait(lambda: log.exists() and "ready" in log.read_text(encoding="utf-8"), process)
    return Copier(name, stage, load, source, target, process)


def mirror_maker(stage: Stage, load: Load, software: KafkaSoftware) -> Copier:
    """Start MirrorMaker 2 and wait until it copies."""
    for topic in (mirror.SOURCE, mirror.TARGET):
        stage.create(topic)
    process = mirror.start(software, stage.bootstrap, stage.directory / "mirror")
    copier = Copier("mm2", stage, load, mirror.SOURCE, mirror.TARGET, process)
    copier.prepare(100)
    copier.release()
    copier.wait(100)
    return copier


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
            progress = decode_progress(record.value() or b"")
            if progress.kind is ProgressKind.SOURCE:
                place = TopicPartition(progress.topic, progress.partition)
                self.next[self._names[record.topic()], place] = progress.offset

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
class Hop:
    """What one node of the chain does to messages of one class.

    Attributes:
        node: Who works.
        source: What it reads.
        target: What it writes.
        behind: The neighbour that it is held back from until its turn; None at the ingress.
    """

    name: str
    stage: Stage
    load: Load
    positions: Positions
    message_class: MessageClass
    node: str
    source: str
    target: str
    behind: str | None
    _ends: Mapping[TopicPartition, int] = field(default_factory=dict)

    def process(self) -> Process:
        """Return the worker."""
        return self.stage.worker(self.node)

    def prepare(self, count: int) -> None:
        """Write the messages, or take what the node before has left."""
        if self.behind is None:
            self.load.write(self.source, self.message_class.letter, count)

    def release(self) -> None:
        """Commit them, or let the node read its neighbour."""
        if self.behind is None:
            self.load.release()
            self._ends = self.stage.ends(self.source)
        else:
            self._ends = self.stage.ends(self.source)
            self.stage.fleet.cut(self.node, [])

    def wait(self, count: int) -> float:
        """Wait until it has committed its reading and its target grows no more."""
        is_direct_outbox = self.behind is not None and self.message_class is MessageClass.DIRECT
        markers = 0 if is_direct_outbox else MARKERS

        def is_read() -> bool:
            return self.positions.has_passed(self.node, self._ends, markers=markers)

        done_s = _wait(is_read, self.process())
        if self.message_class is MessageClass.DIRECT:
            grown = _grown(self.stage, self.target)
            size = -1
            while (now := grown()) != size:
                size = now
                time.sleep(STILL_S)
        return done_s

    def finish(self) -> None:
        """Hold the node back again."""
        if self.behind is not None:
            self.stage.fleet.cut(self.node, [self.behind])


def hops(stage: Stage, load: Load, positions: Positions) -> list[Hop]:
    """Return the measurements along the chain, in the order in which they must be made."""
    names = stage.names
    found: list[Hop] = []
    for word, message_class in (("", MessageClass.GUARANTEED), (" direct", MessageClass.DIRECT)):
        ingress = names.ingress("a", message_class)
        first = names.outbox("a", "b", message_class)
        second = names.outbox("b", "c", message_class)
        sink = names.endpoint("c", f"sink-{message_class.letter}")
        for name, node, source, target, behind in (
            ("ingress", "a", ingress, first, None),
            ("transit", "b", first, second, "a"),
            ("delivery", "c", second, sink, "b"),
        ):
            found.append(
                Hop(
                    f"{name}{word}",
                    stage,
                    load,
                    positions,
                    message_class,
                    node,
                    source,
                    target,
                    behind,
                )
            )
    return found
