"""One local Spark for all tests of this folder, and an auditor that reads static frames."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import platformdirs
import pytest
from pyspark.sql import DataFrame, SparkSession

from mesh.model.topology import Topology
from streaming.connectors.session import YOUNG_JVM, start_session
from streaming.connectors.sink import Output
from streaming.job.auditor import Auditor
from streaming.job.rereads import Rereader
from streaming.job.snapshots import Snapshots
from streaming.job.state import State
from streaming.tables.rows import TopicPartition
from tests.streaming.planted import Plant, chain_topology

KAFKA_COLUMNS = """topic string, `partition` int, offset long, timestamp timestamp, key binary,
value binary, headers array<struct<key: string, value: binary>>"""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    cache = Path(os.environ.get("MESH_CACHE") or platformdirs.user_cache_dir("trellis-mesh"))
    session = start_session(cache, jvm=YOUNG_JVM, progress=print)
    # A dozen rows are read sooner than code for them is compiled; the live test compiles.
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    yield session
    session.stop()


def kafka_frame(
    spark: SparkSession,
    plant: Plant,
    since: Mapping[tuple[str, int], int] | None = None,
) -> DataFrame:
    """Return the plant's records as Spark's Kafka source would."""
    rows = [
        (
            topic,
            partition,
            offset,
            datetime.fromtimestamp(one.at_ms / 1000, tz=UTC),
            one.key,
            one.value,
            list(one.headers) or None,
        )
        for (topic, partition), log in plant.logs.items()
        for offset, one in enumerate(log)
        if offset >= (since or {}).get((topic, partition), 0)
    ]
    return spark.createDataFrame(rows, KAFKA_COLUMNS)


@dataclass(frozen=True, slots=True)
class PlantReader(Rereader):
    """Reads again what was planted."""

    plant: Plant = field(default_factory=Plant)

    def _records(self, ranges) -> DataFrame:
        frame = kafka_frame(self.session, self.plant)
        wanted = [(*place, *range_) for place, range_ in ranges.items()]
        bounds = self.session.createDataFrame(
            wanted, "topic string, `partition` int, first long, end long"
        )
        joined = frame.join(bounds, on=["topic", "partition"])
        return joined.where("offset >= first and offset < end").drop("first", "end")


@dataclass
class Bench:
    """An auditor over a plant, stepped by hand."""

    spark: SparkSession
    plant: Plant
    folder: Path
    topology: Topology = field(default_factory=chain_topology)
    outputs: list[Output] = field(default_factory=list)
    taken: dict[tuple[str, int], int] = field(default_factory=dict)
    begins: dict[TopicPartition, int] = field(default_factory=dict)
    clock_s: float = 1000.0

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin anew from the last snapshot, as a new process would."""
        self.auditor = Auditor(
            topology=self.topology,
            rereader=PlantReader(self.spark, self.topology, {}, plant=self.plant),
            snapshots=Snapshots(self.folder, State),
            write=self.outputs.extend,
            positions=lambda _: {
                TopicPartition(*place): len(log) for place, log in self.plant.logs.items()
            },
            beginnings=lambda places: {place: self.begins.get(place, 0) for place in places},
            tasks=2,
            offsets_max=1_000_000,
            clock=lambda: self.clock_s,
        )

    def take(self) -> None:
        """Take what was planted since the last batch."""
        frame = kafka_frame(self.spark, self.plant, self.taken)
        self.auditor.take(frame, self.auditor.state.batch + 1)
        self.taken = {place: len(log) for place, log in self.plant.logs.items()}

    def wait(self, seconds: float) -> None:
        """Let time pass, and judge once a second as the supervisor does."""
        for _ in range(int(seconds)):
            self.clock_s += 1.0
            self.auditor.judge()

    def crash_after_writing(self, topic: str) -> None:
        """Go on until a record of a topic was written, and die before anything else is done."""

        def write(outputs: Sequence[Output]) -> None:
            self.outputs.extend(outputs)
            if any(one.topic == topic for one in outputs):
                raise KeyboardInterrupt

        self.auditor.write = write
        self.wait(60)

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
    """A mesh whose nodes have said who they are."""
    made = Plant()
    made.identities()
    return made


@pytest.fixture
def bench(spark: SparkSession, plant: Plant, tmp_path: Path) -> Bench:
    return Bench(spark, plant, tmp_path)
