"""One local Spark for all tests of this folder, and an auditor that reads static frames."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import platformdirs
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mesh.model.topology import Topology
from streaming.connectors.session import YOUNG_JVM, start_session
from streaming.connectors.sink import SinkRecord
from streaming.job.auditor import Auditor
from streaming.job.kafka_clusters import AuditedKafkaClusters
from streaming.job.rereads import Rereader
from streaming.job.snapshots import Snapshots
from streaming.tables.rows import TopicPartition
from tests.streaming.planted import PARTITIONS, Plant, chain_topology, topic_id

CODED_COLUMNS = """topic: string, partition: int, offset: bigint, at_ms: bigint, key: string,
value: string, headers: array<struct<key: string, value: string>>"""


def quick_session(progress: Callable[[str], None]) -> SparkSession:
    """Start Spark for a dozen rows, which are read sooner than code for them is compiled."""
    cache = Path(os.environ.get("MESH_CACHE") or platformdirs.user_cache_dir("trellis-mesh"))
    return start_session(cache, jvm=YOUNG_JVM, compiles=False, progress=progress)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = quick_session(print)  # the live test compiles
    yield session
    session.stop()


def kafka_frame(
    spark: SparkSession,
    plant: Plant,
    since: Mapping[tuple[str, int], int] | None = None,
    until: Mapping[tuple[str, int], int] | None = None,
    places: Sequence[tuple[str, int]] | None = None,
) -> DataFrame:
    """Return the plant's records as Spark's Kafka source would."""
    rows = [
        {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "at_ms": one.at_ms,
            "key": coded(one.key),
            "value": coded(one.value),
            "headers": [{"key": key, "value": coded(value)} for key, value in one.headers] or None,
        }
        for (topic, partition), log in plant.logs.items()
        for offset, one in enumerate(log)
        if one is not None  # a marker of a transaction stands there
        and (places is None or (topic, partition) in places)
        and (since or {}).get((topic, partition), 0) <= offset
        and offset < (until or {}).get((topic, partition), len(log))
    ]
    inlined = F.inline(F.from_json(F.lit(json.dumps(rows)), f"array<struct<{CODED_COLUMNS}>>"))
    return (
        spark.range(1)
        .select(inlined)
        .select(
            "topic",
            "partition",
            "offset",
            F.timestamp_millis("at_ms").alias("timestamp"),
            F.unbase64("key").alias("key"),
            F.unbase64("value").alias("value"),
            F.transform(
                "headers",
                lambda one: F.struct(one["key"], F.unbase64(one["value"]).alias("value")),
            ).alias("headers"),
        )
    )


def coded(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


@dataclass(frozen=True, slots=True)
class PlantReader(Rereader):
    """Reads again what was planted."""

    plant: Plant = field(default_factory=Plant)

    def _records(self, ranges) -> DataFrame:
        """Return planted records."""
        frame = kafka_frame(self.session, self.plant)
        wanted = [(*place, *range_) for place, range_ in ranges.items()]
        bounds = self._requests(wanted, "topic string, `partition` int, first long, end long")
        joined = frame.join(bounds, on=["topic", "partition"])
        return joined.where("offset >= first and offset < end").drop("first", "end")

    def records(self, kafka, ranges) -> DataFrame:
        """Return planted records."""
        return self._records(ranges)


@dataclass(frozen=True, slots=True)
class PlantBrokers:
    """What the brokers of one Kafka cluster would say of a plant."""

    plant: Plant
    name: str
    begins: Mapping[TopicPartition, int]
    ids: Mapping[str, str]
    home: Callable[[str], str]
    kept_by_key: Sequence[str] = ()

    def _logs(self) -> Mapping[tuple[str, int], int]:
        logs = self.plant.logs.items()
        return {place: len(log) for place, log in logs if self.home(place[0]) == self.name}

    def beginnings(self, places) -> Mapping[TopicPartition, int]:
        return {place: self.begins.get(place, 0) for place in places}

    def ends(self, places) -> Mapping[TopicPartition, int]:
        logs = self._logs()
        return {place: logs[place] for place in places if place in logs}

    def stable_ends(self, places) -> Mapping[TopicPartition, int]:
        return self.ends(places)

    def since(self, places, at_ms) -> Mapping[TopicPartition, int]:
        logs = self.plant.logs
        return {
            place: next(
                (n for n, one in enumerate(logs[place]) if one and one.at_ms >= at_ms),
                len(logs[place]),
            )
            for place in places
            if place in logs
        }

    def topics(self) -> Sequence[str]:
        return sorted({topic for topic, _ in self._logs()})

    def compacted(self, topics) -> Sequence[str]:
        return [one for one in topics if one in self.kept_by_key]

    def described(self, topics) -> Mapping[str, tuple[str, int]]:
        partitions: dict[str, int] = {}
        for topic, number in self.plant.logs:
            partitions[topic] = max(partitions.get(topic, PARTITIONS), number + 1)
        return {
            one: (self.ids.get(one) or topic_id(one).hex(), partitions.get(one, PARTITIONS))
            for one in topics
        }


def kafka_of(topic: str) -> str:
    """Return where the topic of a planted node is."""
    return "k2" if topic.split(".")[1] in ("c", "d") else "k1"


@dataclass
class Bench:
    """An auditor over a plant, stepped by hand."""

    spark: SparkSession | None
    plant: Plant
    folder: Path
    topology: Topology = field(default_factory=chain_topology)
    outputs: list[SinkRecord] = field(default_factory=list)
    taken: dict[tuple[str, int], int] = field(default_factory=dict)
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    begins: dict[TopicPartition, int] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    compacted: list[str] = field(default_factory=list)
    clock_s: float = 1000.0
    kafkas: Sequence[str] = ("k1", "k2")
    home: Callable[[str], str] = kafka_of
    auditor_class: ClassVar[type[Auditor]] = Auditor

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin anew from the last snapshot, as a new process would."""
        kafka_clusters = self.kafka_clusters()
        self.auditor = self.auditor_class(
            topology=self.topology,
            rereader=self.reader(kafka_clusters),
            kafka_clusters=kafka_clusters,
            snapshots=Snapshots(self.folder),
            write=self.outputs.extend,
            positions=lambda name, _: {
                TopicPartition(*place): end
                for place, end in self.ends.items()
                if self.home(place[0]) == name
            },
            tasks=2,
            offsets_max=1_000_000,
            clock=lambda: self.clock_s,
        )

    def kafka_clusters(self) -> AuditedKafkaClusters:
        """Return what the brokers of the plant say."""
        brokers = {
            name: PlantBrokers(self.plant, name, self.begins, self.ids, self.home, self.compacted)
            for name in self.kafkas
        }
        return AuditedKafkaClusters("mesh.", brokers, clock=lambda: self.clock_s)

    def reader(self, kafka_clusters: AuditedKafkaClusters) -> Rereader:
        """Return what reads the plant again."""
        return PlantReader(self.spark, self.topology, kafka_clusters, {}, plant=self.plant)

    def take(self, *late: str) -> None:
        """Take what was planted since the last batch, but for topics that are read late."""
        ends = {
            place: self.taken.get(place, 0) if place[0] in late else len(log)
            for place, log in self.plant.logs.items()
        }
        self.take_to(ends, self.kafkas)
        self._check_pieces()

    def take_to(
        self,
        ends: Mapping[tuple[str, int], int],
        kafkas: Iterable[str],
        between: Callable[[], None] = lambda: None,
    ) -> None:
        """Take a batch of each Kafka cluster that has news, one after another.

        Args:
            ends: Up to where the topics are read.
            kafkas: In which order.
            between: Called after each batch.
        """
        self.ends = dict(ends)
        for name in kafkas:
            news = [
                place
                for place, end in self.ends.items()
                if self.home(place[0]) == name and end > self.taken.get(place, 0)
            ]
            if news:
                number = self.auditor.state.batches.get(name, -1) + 1
                self.auditor.take(self.records(news), name, number)
                between()
        self.taken = dict(self.ends)

    def records(self, places: Sequence[tuple[str, int]]) -> DataFrame:
        """Return what was planted in partitions since the last batch."""
        return kafka_frame(self.spark, self.plant, self.taken, self.ends, places)

    def _check_pieces(self) -> None:
        """See that what is saved of blocks, of some from before, is what they are."""
        blocks = self.auditor.state.certifier.blocks
        assert [*self.auditor.snapshots.packed(blocks)] == [*Snapshots(self.folder).packed(blocks)]

    def wait(self, seconds: float) -> None:
        """Let time pass, and judge once a second as the supervisor does."""
        for _ in range(int(seconds)):
            self.clock_s += 1.0
            for name in self.kafkas:  # each query waits: all that was written is read
                self.auditor.kafka_clusters.read[name] = self.clock_s - 1.0
            self.auditor.judge()
            self._check_pieces()

    def crash_after_writing(self, topic: str) -> None:
        """Take what is there, until a record of a topic was written; die before all else is done."""

        def write(outputs: Sequence[SinkRecord]) -> None:
            self.outputs.extend(outputs)
            if any(one.topic == topic for one in outputs):
                raise KeyboardInterrupt

        self.auditor.publisher.write = write
        try:
            self.take()
            self.wait(60)
        finally:
            self.taken = dict(self.ends)

    def settle(self) -> Sequence[str]:
        """Take a batch, let all that can settle, and return the kinds of all findings, sorted."""
        self.take()
        self.wait(15)
        return sorted(one.kind.value for one in self.auditor.state.register.findings.values())

    @property
    def certificates(self) -> dict[tuple[str, str], object]:
        """Newest certificate by source and endpoint; one block is enough here."""
        return {
            (one.source, one.endpoint): one
            for blocks in self.auditor.state.certifier.blocks.open.values()
            for block in blocks.values()
            for one in block.issued.values()
        }


@pytest.fixture
def plant() -> Plant:
    """A mesh whose nodes have said who they are, and want anything, so that no copy is needless."""
    made = Plant()
    made.identities()
    made.want_all()
    return made


@pytest.fixture
def bench(spark: SparkSession, plant: Plant, tmp_path: Path) -> Bench:
    return Bench(spark, plant, tmp_path)
