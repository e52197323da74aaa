"""Faults injected into one worker, for tests and exercises on a real mesh.

A file names the neighbours that are not read, those from which everything arrives late, and
how far the wall clock is off. None of it changes what the worker decides or writes.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.transport.port import Reader, Record, TopicPartition
from mesh.worker.process.intake import Intake, MayWait, none_may_wait

RETRY_MS = 100
"""A lost fetch is repeated after its delay, but not sooner than this."""


@dataclass(frozen=True, slots=True)
class SlowLink:
    """How late everything from one neighbour arrives.

    Attributes:
        neighbour: The other end.
        delay_ms: Of every fetch.
        loss: Share of fetches that are lost and repeated; records never disappear from Kafka.
    """

    neighbour: str
    delay_ms: int
    loss: float


@dataclass(frozen=True, slots=True)
class InjectedFaults:
    """Faults that one node is to suffer.

    Attributes:
        cuts: Neighbours that are not read.
        slow: Neighbours from which everything arrives late.
        clock_s: How far the wall clock is off, in seconds.
    """

    cuts: tuple[str, ...] = ()
    slow: tuple[SlowLink, ...] = ()
    clock_s: float = 0.0

    def written(self) -> str:
        """Return them as the text of their file."""
        return json.dumps(asdict(self))


def read_injected_faults(text: str) -> InjectedFaults:
    """Parse the text of their file.

    Raises:
        ValueError: The text is something else, or only part of one.
    """
    try:
        found = json.loads(text)
        slow = tuple(SlowLink(**link) for link in found["slow"])
        return InjectedFaults(tuple(found["cuts"]), slow, float(found["clock_s"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"no injected faults: {error}") from error


class SlowIntake:
    """An intake that delays the records of some topics, in order per partition.

    Args:
        inner: Where they come from.
        now_ms: Monotonic clock.
        chance: Returns a number from 0 below 1; decides which fetches are lost.
    """

    def __init__(
        self, inner: Intake, now_ms: Callable[[], int], chance: Callable[[], float]
    ) -> None:
        self.positions = inner.positions
        self._inner = inner
        self._now_ms = now_ms
        self._chance = chance
        self._slow: dict[str, SlowLink] = {}
        self._held: dict[TopicPartition, deque[tuple[int, Record]]] = {}

    def slow(self, links: Sequence[SlowLink], node: str, names: TopicNames) -> None:
        """From now on delay everything that a node reads from exactly these neighbours."""
        self._slow = {topic: link for link in links for topic in _topics_of(link, node, names)}

    def read(self, timeout_s: float, may_wait: MayWait = none_may_wait) -> Sequence[Record]:
        """Return records that are due.

        Args:
            timeout_s: How long to wait for some.
            may_wait: As of the inner intake; what is delayed is not gathered besides.
        """
        if not (self._slow or self._held):
            self.positions = self._inner.positions  # the last held record may be forgotten
            return self._inner.read(timeout_s, may_wait)
        fetched = self._inner.read(self._patience(timeout_s))
        now = self._now_ms()
        delays: dict[str, int] = {}
        found: list[Record] = []
        for record in fetched:
            topic = record.topic()
            place = TopicPartition(topic, record.partition())
            link = self._slow.get(topic)
            if link is None and place not in self._held:
                found.append(record)
                continue
            if topic not in delays:
                delays[topic] = 0 if link is None else self._delay(link)
            queue = self._held.setdefault(place, deque())
            due = max(now + delays[topic], queue[-1][0] if queue else 0)
            queue.append((due, record))
        found += self._due(now)
        self._follow_positions()
        return found

    def _patience(self, timeout_s: float) -> float:
        if not self._held:
            return timeout_s
        first = min(queue[0][0] for queue in self._held.values())
        return min(timeout_s, max(0, first - self._now_ms()) / 1000)

    def _delay(self, link: SlowLink) -> int:
        delay_ms = link.delay_ms
        while self._chance() < link.loss:
            delay_ms += max(link.delay_ms, RETRY_MS)
        return delay_ms

    def _due(self, now: int) -> Sequence[Record]:
        found: list[Record] = []
        for place, queue in list(self._held.items()):
            while queue and queue[0][0] <= now:
                found.append(queue.popleft()[1])
            if not queue:
                del self._held[place]
        return found

    def _follow_positions(self) -> None:
        """Update positions for the records returned: what is held back has not arrived yet."""
        inner = self._inner.positions
        if not self._held:
            self.positions = inner
            return
        held = {place: queue[0][1].offset() for place, queue in self._held.items()}
        self.positions = {at: min(next_, held.get(at, next_)) for at, next_ in inner.items()}

    def add(self, kafka: str, reader: Reader) -> None:
        """Read another Kafka cluster too."""
        self._inner.add(kafka, reader)

    def watch(self, kafka: str, place: TopicPartition) -> None:
        """Keep `positions` up to date for a partition."""
        self._inner.watch(kafka, place)

    def unwatch(self, place: TopicPartition) -> None:
        """Stop that."""
        self._inner.unwatch(place)

    def forget(self, places: Sequence[TopicPartition]) -> None:
        """Stop returning what was fetched from these partitions before now."""
        self._inner.forget(places)
        for place in places:
            self._held.pop(place, None)
        self._follow_positions()

    def close(self) -> None:
        """Stop reading and close the readers."""
        self._inner.close()


def _topics_of(link: SlowLink, node: str, names: TopicNames) -> Sequence[str]:
    """Return the topics that a node reads from a neighbour."""
    other = link.neighbour
    outboxes = [names.outbox(other, node, message_class) for message_class in MessageClass]
    control = [names.control(other), names.to_control(other, node)]
    return [*control, names.to_trees(other, node), *outboxes]


class WallClock:
    """Shifts this process's notion of the time of day.

    Only for what Python code reads: time stamps of the client library and the system stay true.
    """

    def __init__(self) -> None:
        self._true: Mapping[str, Callable[[], float]] = {
            "time": time.time,
            "time_ns": time.time_ns,
        }

    def shift(self, seconds: float) -> None:
        """Shift the time of day by this much from now on; 0 restores it."""
        now, now_ns = self._true["time"], self._true["time_ns"]
        off_ns = int(seconds * 1_000_000_000)
        time.time = lambda: now() + seconds
        time.time_ns = lambda: int(now_ns()) + off_ns
