"""How much consumers fetch at once: all of them together fit into the heap."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.connectors.source import FETCH_BYTES, FETCH_SHARE, again, fetching
from streaming.job.kafka_clusters import AuditedKafkaClusters
from streaming.job.outages import KafkaOutages
from streaming.job.queries import Queries, Query
from streaming.tables.rows import TopicPartition


class Chain:
    """What Spark is asked for call by call; it keeps the options."""

    def __init__(self) -> None:
        self.options: dict[str, str] = {}

    def option(self, name: str, value: str) -> Chain:
        self.options[name] = value
        return self

    def __getattr__(self, _: str) -> Callable[..., Chain]:
        return lambda *_, **__: self


class Session:
    """Spark, of which nothing is asked but what is to be read."""

    def __init__(self) -> None:
        self.read = Chain()
        self.counts: list[int] = []

    def live(self, *told: Any) -> Any:
        """Read one Kafka cluster; the last of what is told is the number of partitions."""
        self.counts.append(told[-1])
        return SimpleNamespace(writeStream=Chain())


@given(st.integers(2**26, 2**36), st.integers(0, 100_000))
def test_all_consumers_fit_into_their_share_of_the_heap(heap: int, partitions: int) -> None:
    least, most = FETCH_BYTES
    bytes_ = int(fetching(heap, partitions)["kafka.max.partition.fetch.bytes"])
    assert least <= bytes_ <= most
    assert bytes_ == least or bytes_ * partitions <= heap / FETCH_SHARE


def test_few_partitions_are_fetched_as_kafka_does_and_many_little_by_little() -> None:
    assert fetching(2**30, 20)["kafka.max.partition.fetch.bytes"] == "1048576"
    many = fetching(2**30, 2_000)
    assert many["kafka.max.partition.fetch.bytes"] == "67108"
    assert many["kafka.max.poll.records"] == "335"


def test_kafka_clusters_share_what_is_for_consumers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each of three that are read had as much as all together may have."""
    session = Session()
    monkeypatch.setattr("streaming.job.queries.source.live", session.live)
    monkeypatch.setattr(AuditedKafkaClusters, "places", lambda *_: range(400))
    clusters = ("k1", "k2", "k3")
    kafka_clusters = AuditedKafkaClusters("mesh.", needed=dict.fromkeys(clusters))
    state = SimpleNamespace(batches={})
    topology = SimpleNamespace(prefix="mesh.")
    auditor: Any = SimpleNamespace(
        kafka_clusters=kafka_clusters, state=state, topology=topology, offsets_max=1_000
    )
    options: dict[str, dict[str, str]] = {one: {} for one in (*clusters, "spare")}
    queries = Queries(session, auditor, options, tmp_path, 1.0, KafkaOutages(print))
    for kafka in clusters:
        queries._start(kafka, Query())
    assert session.counts == [1_200] * 3


def test_what_is_read_again_is_polled_by_the_thousand() -> None:
    """A past range is read so, all of it: Kafka's default is 500 records."""
    session: Any = Session()
    again(session, {}, {TopicPartition("mesh.a.in.g", 0): (0, 9)})
    assert session.read.options["kafka.max.poll.records"] == "5000"
