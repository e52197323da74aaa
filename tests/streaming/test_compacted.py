"""What compaction took from an ingress on real Kafka is seen to be lacking. Spec: K5."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from pyspark.sql import SparkSession

from mesh.errors import TransportUnavailableError
from streaming.connectors import source
from streaming.connectors.logs import Logs
from streaming.job.batches import BatchContext, rows_of
from streaming.job.holes import begun_late, gaps
from streaming.tables.rows import TopicPartition
from streaming.tables.topics import INGRESS
from tests.patience import PATIENCE_S, wait_until
from tests.streaming.planted import chain_topology

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

KEPT_BY_KEY = {
    "cleanup.policy": "compact,delete",
    "segment.ms": "60000",
    "min.cleanable.dirty.ratio": "0.0",
}

BEGIN_MS, HOUR_MS = 1_000_000, 3_600_000

T = TypeVar("T")


def compact_every(admin: AdminClient, pause_ms: str | None) -> None:
    """Have the brokers look for what to compact so often; None: as often as ever."""
    what = AlterConfigOpType.DELETE if pause_ms is None else AlterConfigOpType.SET
    entry = ConfigEntry("log.cleaner.backoff.ms", pause_ms, incremental_operation=what)
    brokers = [
        ConfigResource(ResourceType.BROKER, str(number), incremental_configs=[entry])
        for number in admin.list_topics(timeout=PATIENCE_S).brokers
    ]
    for asked in admin.incremental_alter_configs(brokers).values():
        asked.result(PATIENCE_S)


@pytest.fixture
def address(kafka_clusters) -> Iterator[str]:
    (found,) = kafka_clusters(1)
    admin = AdminClient({"bootstrap.servers": found})
    compact_every(admin, "100")
    yield found
    compact_every(admin, None)


def write(address: str, topic: str, *at_ms: int) -> None:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
    for one in at_ms:
        headers = [("mesh-subject", b"acme/x")]
        producer.produce(topic, b"payload", b"k", 0, timestamp=one, headers=headers)
        assert producer.flush(PATIENCE_S) == 0


def wait_compacted(address: str, topic: str) -> None:
    """Wait until the first record of a topic is gone."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "looks"})
    consumer.assign([Place(topic, 0, 0)])

    def is_gone() -> bool:
        consumer.seek(Place(topic, 0, 0))
        message = consumer.poll(1)
        return message is not None and not message.error() and message.offset() > 0

    wait_until("the first record is gone", is_gone, pace_s=0.2)
    consumer.close()


def answered(ask: Callable[[], T]) -> T:
    """Ask until brokers answer, as the auditor does: they are busy with compacting."""
    answers: list[T] = []

    def is_answered() -> bool:
        with suppress(TransportUnavailableError):
            answers.append(ask())
        return bool(answers)

    wait_until("brokers answer", is_answered)
    return answers[0]


def test_what_compaction_took_is_lacking_and_the_topic_says_why(
    spark: SparkSession, address: str
) -> None:
    prefix = f"comp-{secrets.token_hex(4)}."
    plain, kept = (TopicPartition(f"{prefix}{node}.in.g", 0) for node in "ab")
    topics = [NewTopic(plain.topic, 1, 1), NewTopic(kept.topic, 1, 1, config=KEPT_BY_KEY)]
    admin = AdminClient({"bootstrap.servers": address})
    for asked in admin.create_topics(topics).values():
        asked.result(PATIENCE_S)
    for place in (plain, kept):
        # The newest record begins a segment of its own: of the one before it the last stays.
        write(address, place.topic, *[BEGIN_MS] * 4, BEGIN_MS + HOUR_MS)
    wait_compacted(address, kept.topic)
    logs = Logs(spark, {"bootstrap.servers": address})
    ranges = dict.fromkeys((plain, kept), (0, 5))
    assert answered(lambda: logs.ends(ranges)) == dict.fromkeys(ranges, 5)
    records = source.again(spark, logs.kafka, ranges)
    rows = rows_of(records, BatchContext(chain_topology(prefix), {}, {}), [INGRESS], 1)
    assert gaps(prefix, rows, ranges) == {kept: 3}
    assert begun_late(prefix, rows, ranges) == [kept]
    assert answered(lambda: logs.beginnings(ranges)) == dict.fromkeys(ranges, 0)
    nowhere = f"{prefix}c.in.g"
    asked = [plain.topic, kept.topic, nowhere]
    assert answered(lambda: logs.compacted(asked)) == [kept.topic]
