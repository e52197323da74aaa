"""Reads Kafka with Spark's own source, live and again. Spec: reliability.md 9."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from streaming.connectors.java import java_class
from streaming.tables.rows import TopicPartition

COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")

SCHEMA = """topic string, `partition` int, offset long, timestamp timestamp, key binary,
value binary, headers array<struct<key: string, value: binary>>"""

Ranges = Mapping[TopicPartition, tuple[int, int]]
"""Partition -> first offset, and the one after the last."""

_CLIENT = {
    "kafka.isolation.level": "read_committed",
    # A prefetch that waits for data blocks the next seek of the same consumer for as long.
    "kafka.fetch.max.wait.ms": "10",
    "kafka.max.poll.records": "5000",
    "kafka.metadata.max.age.ms": "5000",
    "kafka.enable.metrics.push": "false",
    "kafka.auto.include.jmx.reporter": "false",
    "includeHeaders": "true",
    # A broker that has gone away fails its own query, and holds up no other for long.
    "kafkaConsumer.pollTimeoutMs": "10000",
    "kafka.default.api.timeout.ms": "20000",
    "kafka.request.timeout.ms": "10000",
    # Direct topics may drop what nobody has read yet; `beginnings` shows whether others do.
    "failOnDataLoss": "false",
}


FETCH_SHARE = 8
"""The share of the heap, as one part in so many, for what consumers have fetched in advance."""

FETCH_BYTES = 16_384, 1_048_576
"""What each consumer fetches at once, at least and at most; at most is also Kafka's default."""

RECORD_BYTES = 200
"""A record is assumed to take at least this much there, and as an object several times as much."""


def fetching(heap: int, partitions: int) -> Mapping[str, str]:
    """Return how much consumers fetch at once, so that they do not fill the heap.

    They stay open, one for each partition, and each holds what it has fetched and has not handed
    out yet.

    Args:
        heap: Bytes of the JVM's heap.
        partitions: How many are read.
    """
    least, most = FETCH_BYTES
    bytes_ = min(most, max(least, heap // FETCH_SHARE // max(1, partitions)))
    return {
        "kafka.max.partition.fetch.bytes": str(bytes_),
        "kafka.max.poll.records": str(bytes_ // RECORD_BYTES),
    }


def _with(reader: Any, kafka: Mapping[str, str], more: Mapping[str, str]) -> Any:
    settings = {f"kafka.{name}": value for name, value in kafka.items()}
    for name, value in {**settings, **_CLIENT, **more}.items():
        reader = reader.option(name, value)
    return reader


def live(
    session: SparkSession,
    kafka: Mapping[str, str],
    pattern: str,
    offsets_max: int,
    partitions: int,
) -> DataFrame:
    """Return the records of all topics of one Kafka cluster as they come, from the beginning.

    Args:
        session: Spark.
        kafka: Options of Kafka's Java client.
        pattern: Java regular expression of the topics; new topics are found at every batch.
        offsets_max: Maximum number of records that one batch takes.
        partitions: Approximate number of consumers that share their part of the heap.
    """
    heap = java_class(session, "java.lang.Runtime").getRuntime().maxMemory()
    more = {
        **fetching(heap, partitions),
        "subscribePattern": pattern,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(offsets_max),
    }
    reader = _with(session.readStream.format("kafka"), kafka, more)
    return reader.load().select(*COLUMNS)


def nothing(session: SparkSession) -> DataFrame:
    """Return no records."""
    return session.createDataFrame([], SCHEMA)


def again(session: SparkSession, kafka: Mapping[str, str], ranges: Ranges) -> DataFrame:
    """Return the committed records of some ranges of one Kafka cluster.

    Args:
        session: Spark.
        kafka: Options of Kafka's Java client.
        ranges: What to read; records that no longer exist are left out.
    """
    topics: dict[str, dict[str, tuple[int, int]]] = {}
    for place, range_ in sorted(ranges.items()):
        topics.setdefault(place.topic, {})[str(place.partition)] = range_
    more = {
        "assign": json.dumps({topic: [int(p) for p in parts] for topic, parts in topics.items()}),
        "startingOffsets": _side(topics, 0),
        "endingOffsets": _side(topics, 1),
    }
    return _with(session.read.format("kafka"), kafka, more).load().select(*COLUMNS)


def _side(topics: Mapping[str, Mapping[str, tuple[int, int]]], side: int) -> str:
    return json.dumps(
        {
            topic: {partition: range_[side] for partition, range_ in partitions.items()}
            for topic, partitions in topics.items()
        }
    )
