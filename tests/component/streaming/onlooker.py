"""An auditor that reads along while a mesh of the swarm runs, in virtual time and without Spark."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from mesh.errors import TransportUnavailableError
from mesh.transport.headers import headers_of
from mesh.transport.memory_log import MemoryRecord, PartitionLog
from streaming.job.kafka_clusters import AuditedKafkaClusters
from streaming.tables.rows import TopicPartition
from streaming.tables.topics import audited_pattern
from tests.component.streaming.plain_bench import PlainBench
from tests.sim.swarm.world import SwarmWorld
from tests.streaming.planted import Plant, Record

At = tuple[str, int]
"""Topic and partition."""

PAUSES_MS = (50, 200, 500, 1_000, 2_500)
"""After so long the auditor looks again."""
LATE_SHARE = 0.3
"""So often a Kafka cluster is left out of a look."""
RESTART_SHARE = 0.05
"""So often the auditor begins anew from what it has kept."""
BATCHES_MAX = (25, 100, 100_000, 100_000)
"""So many offsets one batch reads at most."""
SETTLE_S = 20
"""Whatever can be certified of a mesh at rest is, within so long."""


@dataclass(frozen=True)
class LiveBrokers:
    """What the brokers of one Kafka cluster of a swarm say, and of what was planted besides."""

    world: SwarmWorld
    plant: Plant
    name: str

    def _logs(
        self, places: Iterable[TopicPartition]
    ) -> Iterator[tuple[TopicPartition, PartitionLog]]:
        kafka = self.world.kafka[self.name]
        if not kafka.available:
            raise TransportUnavailableError(f"{self.name} does not answer")
        for place in places:
            made = kafka.topics.get(place.topic)
            if made is not None and place.partition < len(made.logs):
                yield place, made.logs[place.partition]

    def beginnings(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {place: log.start for place, log in self._logs(places)}

    def ends(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {place: max(log.end, self._planted(place)) for place, log in self._logs(places)}

    def stable_ends(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {place: max(log.stable, self._planted(place)) for place, log in self._logs(places)}

    def _planted(self, place: TopicPartition) -> int:
        return len(self.plant.logs.get((place.topic, place.partition), ()))

    def since(self, places: Iterable[TopicPartition], at_ms: int) -> Mapping[TopicPartition, int]:
        return {place: log.since(at_ms) for place, log in self._logs(places)}

    def topics(self) -> Sequence[str]:
        list(self._logs(()))
        return sorted(self.world.kafka[self.name].topics)

    def compacted(self, topics: Sequence[str]) -> Sequence[str]:
        return [one for one in topics if self.world.kafka[self.name].topics[one].compacted]

    def described(self, topics: Sequence[str]) -> Mapping[str, tuple[str, int]]:
        list(self._logs(()))
        made = self.world.kafka[self.name].topics
        found = {one: made[one].info for one in topics if one in made}
        return {one: (info.topic_id.hex(), info.partitions) for one, info in found.items()}


@dataclass
class Onlooker(PlainBench):
    """A bench that follows a swarm.

    Attributes:
        world: The swarm.
        rng: Draws when it reads what.
        next_ms: When it looks again.
        batch_max: So many offsets one batch reads at most.
        floors: Kafka cluster -> what the next batch of it reads at least: all that was there when
            the last one was done.
        lives: Partition -> its topic's id, and how often it had lost its end.
        kept_ms: From this moment on it reads no further until `finish`; None: it reads on.
    """

    world: SwarmWorld = field(kw_only=True)
    rng: random.Random = field(kw_only=True)
    next_ms: int = 0
    batch_max: int = field(init=False)
    floors: dict[str, Mapping[At, int]] = field(default_factory=dict)
    lives: dict[At, tuple[bytes, int]] = field(default_factory=dict)
    kept_ms: int | None = None
    is_kept_back: bool = False

    def __post_init__(self) -> None:
        self.batch_max = self.rng.choice(BATCHES_MAX)
        super().__post_init__()

    def restart(self) -> None:
        super().restart()
        self.auditor.offsets_max = self.batch_max
        read = self.auditor.state.read
        self.taken = {at: read.get(TopicPartition(*at), 0) for at in self.taken}
        self.ends = dict(self.taken)

    def kafka_clusters(self) -> AuditedKafkaClusters:
        brokers = {name: LiveBrokers(self.world, self.plant, name) for name in self.kafkas}
        return AuditedKafkaClusters("mesh.", brokers, clock=lambda: self.clock_s)

    def look_on(self) -> None:
        """Read some of what is there, and judge."""
        self.clock_s = self.world.clock.ms / 1000
        self.kafkas = tuple(self.world.kafka)
        for name in self.kafkas:  # a change of the topology may have brought one
            brokers = LiveBrokers(self.world, self.plant, name)
            self.auditor.kafka_clusters.brokers.setdefault(name, brokers)
        if self.kept_ms is not None and self.world.clock.ms >= self.kept_ms:
            self.next_ms, self.is_kept_back = sys.maxsize, True
            return
        names = list(self.world.kafka)
        self.rng.shuffle(names)
        for name in names:
            if self.rng.random() >= LATE_SHARE:
                self.batch(name)
        if self.rng.random() < 0.3:
            self.auditor.judge()
        if self.rng.random() < RESTART_SHARE:
            self.restart()
        self.next_ms = self.world.clock.ms + self.rng.choice(PAUSES_MS)

    def batch(self, kafka: str) -> None:
        """Read a batch of a Kafka cluster, if there is news."""
        unread = self.auditor.kafka_clusters.unread
        if not self.world.kafka[kafka].available:
            unread[kafka] = "it does not answer"
            return
        unread.pop(kafka, None)
        self.mirror()
        there = self.there(kafka)
        for at in [at for at in self.ends if self.home(at[0]) == kafka and at not in there]:
            del self.ends[at]
            self.taken.pop(at, None)
        self.ends |= self._planned(there, self.floors.get(kafka, {}))
        if news := [at for at in there if self.ends[at] != self.taken.get(at, 0)]:
            number = self.auditor.state.batches.get(kafka, -1) + 1
            self.auditor.take(self.records(news), kafka, number)
            self.taken |= {at: self.ends[at] for at in there}
            self.floors[kafka] = there

    def there(self, kafka: str) -> Mapping[At, int]:
        """Return the ends of what can be read of a Kafka cluster."""
        return {at: len(log) for at, log in self.plant.logs.items() if self.home(at[0]) == kafka}

    def _planned(self, there: Mapping[At, int], floor: Mapping[At, int]) -> Mapping[At, int]:
        """Return up to where a batch reads: as Spark, which asks one partition after another."""
        begins = {at: min(self.taken.get(at, 0), end) for at, end in there.items()}
        ends = {
            at: self.rng.randint(max(begins[at], min(floor.get(at, 0), end)), end)
            for at, end in there.items()
        }
        news = sum(end - begins[at] for at, end in ends.items())
        if news <= self.batch_max:
            return ends
        shares = {at: self.batch_max * (end - begins[at]) / news for at, end in ends.items()}
        return {
            at: min(ends[at], begins[at] + (ceil(share) if share < 1 else int(share)))
            for at, share in shares.items()
        }

    def mirror(self) -> None:
        """Take into the plant what brokers show by now, and out of it what they have no more."""
        pattern = re.compile(audited_pattern("mesh."))
        there: dict[At, None] = {}
        for name, kafka in self.world.kafka.items():
            for topic, made in kafka.topics.items():
                if not pattern.fullmatch(topic) or self.home(topic) != name:
                    continue
                self.ids[topic] = made.info.topic_id.hex()
                for number, log in enumerate(made.logs):
                    there[topic, number] = None
                    self._copy((topic, number), made.info.topic_id, log)
        for at in [at for at in self.plant.logs if at not in there]:
            del self.plant.logs[at]

    def _copy(self, at: At, topic_id: bytes, log: PartitionLog) -> None:
        entries, life = self.plant.logs.setdefault(at, []), (topic_id, log.leader_epoch)
        if self.lives.setdefault(at, life) != life:
            self.lives[at] = life
            entries.clear()
        entries += [None] * (log.start - len(entries))
        news = log.entries[len(entries) - log.start : max(0, log.stable - log.start)]
        entries += [None if one is None else record_of(one) for one in news]
        self.begins[TopicPartition(*at)] = log.start

    def finish(self) -> None:
        """Read all that there is, in pieces, and let everything settle."""
        self.clock_s = max(self.clock_s, self.world.clock.ms / 1000)
        while self.has_news():
            self.clock_s += 1.0
            for name in self.kafkas:
                self.batch(name)
        self.auditor.lagging.clear()  # what comes next of a mesh at rest is a small batch
        self.wait(SETTLE_S)

    def has_news(self) -> bool:
        """Return whether something has not been read."""
        self.mirror()
        return any(self.taken.get(at, 0) != len(log) for at, log in self.plant.logs.items())

    def wait(self, seconds: float) -> None:
        """Let time pass while nothing is written, and judge every other second."""
        for _ in range(0, int(seconds), 2):
            self.clock_s += 2.0
            for name in self.kafkas:
                self.auditor.kafka_clusters.read[name] = self.clock_s - 1.0
            self.auditor.judge()


class WatchedWorld(SwarmWorld):
    """A swarm that an auditor reads along with; that changes nothing of what happens there."""

    onlooker: Onlooker | None = None

    def run(self, until_ms: int) -> None:
        """Advance, and have the auditor look whenever it wants to."""
        while self.onlooker is not None and self.onlooker.next_ms <= until_ms:
            super().run(self.onlooker.next_ms)
            self.onlooker.look_on()
        super().run(until_ms)


def record_of(record: MemoryRecord) -> Record:
    """Return a record as it is planted."""
    return Record(record.key(), record.value(), tuple(headers_of(record)), record.timestamp()[1])
