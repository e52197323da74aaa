"""The way of one message, searched for in the topics of the nodes that it reached. Spec: K3, K9.

Partition i of a source goes to partition i mod P of every target, so one partition per topic is
read. Where to look in it is found by time: a delivery has the time of its message, and a frame is
written after the message, or after the frame that brought it.

Nodes at the same distance are queried at once, each Kafka cluster with few requests and one
reader: each of these waits for its turn where others keep the cores busy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass, field

from mesh.errors import TransportUnavailableError
from mesh.model.names import name_fault
from mesh.model.topology import Topology
from mesh.operate.messages.search import BEHIND_MAX, FRAMES_BEHIND_MAX, Search
from mesh.operate.messages.steps import Ingress, RecordedArrival, Step
from mesh.transport.port import KafkaCluster, Record, TopicPartition
from mesh.transport.reading import read_range

SCANNED_MAX = 100_000
"""Newest records that may be examined in each outbox and endpoint."""

SHORT_MAX = 20_000
"""Records that are examined from where the message can be."""

BATCHES_MAX = 2_000
"""Batches of a lane that are searched for the one that took the message: some minutes."""

CLOCKS_MS = 60_000
"""How far the clocks of a publisher and of two Kafka clusters may be apart."""

NEAR_MS = 1_000
"""How far apart they nearly always are at most; if nothing is found, the rest is read too."""


_Offsets = Mapping[TopicPartition, int]


@dataclass(slots=True)
class Way:
    """Queries the nodes of one way.

    Attributes:
        topology, kafka: The mesh.
        ingress: Where the message entered.
        created_ms: Its publisher's time; None if unknown.
        last: How many of the newest records of each partition are examined; None: those among
            which it can be by time.
        pool: Runs queries in parallel.
        search: What was seen so far; readers share it, each for partitions of its own.
    """

    topology: Topology
    kafka: Mapping[str, KafkaCluster]
    ingress: Ingress
    created_ms: int | None
    last: int | None
    pool: Executor
    search: Search = field(init=False)
    _topics: dict[str, Future[Sequence[str]]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.search = Search(self.ingress.identity)

    def steps(
        self, edge: Sequence[RecordedArrival]
    ) -> Mapping[RecordedArrival, Step | TransportUnavailableError]:
        """Return what nodes made of the message, or why their Kafka cluster does not answer."""
        by_kafka: dict[str, list[RecordedArrival]] = {}
        for at in edge:
            by_kafka.setdefault(self.topology.nodes[at.node].kafka, []).append(at)
        for name in by_kafka:
            if name not in self._topics:
                named = self.kafka[name].admin().named
                self._topics[name] = self.pool.submit(named, self.topology.prefix)
        asked: dict[str, tuple[list[Step], Future[_Offsets], list[Future[_Offsets]]]] = {}
        reading: dict[str, tuple[list[Step], Future[None]]] = {}
        found: dict[RecordedArrival, Step] = {}
        silent: dict[str, TransportUnavailableError] = {}
        for name, arrivals in by_kafka.items():
            with _noted(name, silent):
                topics = sorted(self._topics[name].result())
                steps = [self._step(at, topics) for at in arrivals]
                asked[name] = steps, *self._ask(name, steps)
        for name, (steps, ends, begins) in asked.items():
            with _noted(name, silent):
                self._locate(steps, ends.result(), [one.result() for one in begins])
                reading[name] = steps, self.pool.submit(self._read, name, steps)
        for name, (steps, read) in reading.items():
            with _noted(name, silent):
                read.result()
                found |= {step.at: step for step in steps}
        return {at: found.get(at) or silent[self.topology.nodes[at.node].kafka] for at in edge}

    def _step(self, at: RecordedArrival, topics: Sequence[str]) -> Step:
        names, declared = self.topology.names, self.topology.nodes[at.node]
        partition, message_class = at.source.partition, self.ingress.message_class
        partition %= declared.partitions
        # Include endpoints that nobody subscribes to any more: what they received is still there.
        beginning = names.endpoint(at.node, "")
        endpoints = {
            TopicPartition(topic, partition): topic[len(beginning) :]
            for topic in topics
            if topic.startswith(beginning) and name_fault(topic[len(beginning) :]) is None
        }
        outboxes = {
            TopicPartition(names.outbox(at.node, neighbour, message_class), partition): neighbour
            for neighbour in self.topology.neighbours(at.node)
            if self.topology.sends(at.node, neighbour)
        }
        ledger = TopicPartition(names.ledger(at.node), partition % declared.lanes)
        return Step(at, ledger, endpoints, outboxes)

    def _ask(
        self, name: str, steps: Sequence[Step]
    ) -> tuple[Future[_Offsets], list[Future[_Offsets]]]:
        """Ask a Kafka cluster how far partitions go, and from where to look."""
        admin, places = self.kafka[name].admin(), [at for step in steps for at in step.places]
        ends = self.pool.submit(admin.stable_ends, places)
        if self.last is not None or self.created_ms is None:
            return ends, [self.pool.submit(admin.starts, places)]
        moments: dict[int, list[TopicPartition]] = {}
        for step in steps:
            moments.setdefault(self.created_ms, []).extend(step.endpoints)
            came = moments.setdefault(self._came_ms(step) - NEAR_MS, [])
            came += [*step.outboxes, step.ledger]
        return ends, [self.pool.submit(admin.since, of, ms) for ms, of in moments.items()]

    def _came_ms(self, step: Step) -> int:
        """Return when a message reached a node, in whole seconds: one request covers many."""
        came_ms = (self.created_ms if step.at.ms is None else step.at.ms) or 0
        return came_ms // NEAR_MS * NEAR_MS

    def _locate(self, steps: Sequence[Step], ends: _Offsets, found: Sequence[_Offsets]) -> None:
        """Note for each step the offsets between which to read."""
        first = {place: offset for one in found for place, offset in one.items()}
        by_time = self.last is None and self.created_ms is not None
        count = SHORT_MAX if by_time else self.last or SCANNED_MAX
        for step in steps:
            step.ends = {at: ends[at] for at in step.places if at in ends and at in first}
            most = dict.fromkeys(step.ends, count) | {step.ledger: BATCHES_MAX}
            if by_time:
                step.begins = {at: first[at] for at in step.ends}
                step.until = {at: min(end, first[at] + most[at]) for at, end in step.ends.items()}
            else:
                step.begins = {at: max(first[at], end - most[at]) for at, end in step.ends.items()}
                step.until = step.ends
                earlier = [at for at, begin in step.begins.items() if begin > first[at]]
                step.unseen += [at for at in earlier if at != step.ledger]

    def _read(self, name: str, steps: Sequence[Step]) -> None:
        begins = {place: begin for step in steps for place, begin in step.begins.items()}
        until = {place: end for step in steps for place, end in step.until.items()}
        frames_in = {place.topic for step in steps for place in step.outboxes}
        accounts = {step.ledger.topic: step for step in steps}

        def is_over(record: Record) -> bool:
            if (step := accounts.get(record.topic())) is not None:
                return step.is_accounted
            most = FRAMES_BEHIND_MAX if record.topic() in frames_in else BEHIND_MAX
            return self.search.is_over(record, most)

        self._take(name, steps, begins, until, is_over if self.last is None else None)
        if self.last is None and self.created_ms is not None:
            self._read_earlier(name, steps)
        for step in steps:
            step.end(self.search)

    def _read_earlier(self, name: str, steps: Sequence[Step]) -> None:
        """Read outboxes further back if nothing earlier of the source was found there."""
        asked: dict[TopicPartition, Step] = {}
        moments: dict[int, list[TopicPartition]] = {}
        for step in steps:
            for place in step.outboxes:
                if step.begins.get(place) and place.topic not in self.search.early:
                    asked[place] = step
                    moments.setdefault(self._came_ms(step) - CLOCKS_MS, []).append(place)
        until = {place: step.begins[place] for place, step in asked.items()}
        begins: dict[TopicPartition, int] = {}
        for ms, places in moments.items():
            for place, begin in self.kafka[name].admin().since(places, ms).items():
                begins[place] = max(begin, until[place] - SHORT_MAX)
                if begin < begins[place]:
                    asked[place].unseen.append(place)
        self._take(name, steps, begins, until, None)

    def _take(
        self,
        name: str,
        steps: Sequence[Step],
        begins: _Offsets,
        until: _Offsets,
        is_over: Callable[[Record], bool] | None,
    ) -> None:
        of = {place.topic: step for step in steps for place in step.places}
        for record in read_range(self.kafka[name], begins, until, name="trace", until=is_over):
            of[record.topic()].take(record, self.search)


@contextmanager
def _noted(name: str, silent: dict[str, TransportUnavailableError]) -> Iterator[None]:
    """Note that a Kafka cluster does not answer."""
    try:
        yield
    except TransportUnavailableError as error:
        silent[name] = error
