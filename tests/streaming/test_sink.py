"""What the auditor writes is in Kafka as it was given, few records or many. Spec: DESIGN 7."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

from mesh.errors import TransportFencedError, TransportUnavailableError
from streaming.connectors import sink
from streaming.connectors.sink import TOGETHER_MAX, TOGETHER_MIN, AuditTopics, SinkRecord

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SAID = (
    '{"text":"a\\nb \\\\ \\"c\\" \\u0000"}',
    "zwölf Boxkämpfer",
    None,
    "line\none\r\ntwo \\n",
    "x",
)


def written(address: str, topic: str, count: int) -> Sequence[SinkRecord]:
    """Return the records of a topic as a reader of committed ones gets them."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[SinkRecord] = []
    for _ in range(2 * count + 1000):
        message = consumer.poll(10)
        assert message is not None, f"only {len(found)} of {count} records came"
        if message.error() is None:
            key, value = message.key(), message.value()
            found.append(SinkRecord(topic, key.decode(), None if value is None else value.decode()))
        elif len(found) >= count:
            break
    consumer.close()
    return found


@pytest.fixture
def topics(spark: SparkSession, kafka_clusters) -> AuditTopics:
    made = AuditTopics(
        spark, {"bootstrap.servers": kafka_clusters(1)[0]}, f"sink-{secrets.token_hex(4)}"
    )
    made.create({f"{made.writer}.one": {}, f"{made.writer}.two": {}})
    return made


@pytest.mark.parametrize(
    ("count", "alone_max"),
    [(TOGETHER_MIN - 1, sink.ALONE_MAX), (TOGETHER_MIN - 1, 0), (TOGETHER_MAX + 7, sink.ALONE_MAX)],
    ids=["few", "few after many", "many"],
)
def test_records_are_written_as_they_are(
    topics: AuditTopics, count: int, alone_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever characters they have, in their order, and none as the end of its key."""
    monkeypatch.setattr(sink, "ALONE_MAX", alone_max)
    both = [f"{topics.writer}.{name}" for name in ("one", "two")]
    told = [
        SinkRecord(both[at % 2], f"{at} ключ", SAID[at // 2 % len(SAID)]) for at in range(count)
    ]
    topics.write(told)
    is_few = count < TOGETHER_MIN and alone_max
    assert (topics._sender is None) == bool(is_few)
    topics.close()
    address = topics.kafka["bootstrap.servers"]
    for topic in both:
        wanted = [one for one in told if one.topic == topic]
        assert written(address, topic, len(wanted))[: len(wanted)] == wanted


@pytest.mark.parametrize("count", [1, TOGETHER_MIN])
def test_of_a_write_that_fails_nothing_is_read(topics: AuditTopics, count: int) -> None:
    """All of it is one transaction; the next write goes on."""
    topic = f"{topics.writer}.one"
    too_large = SinkRecord(topic, "large", "x" * 2_000_000)
    with pytest.raises(TransportUnavailableError, match="could not write what it found"):
        topics.write([*(SinkRecord(topic, f"{at}", "lost") for at in range(count)), too_large])
    after = [SinkRecord(topic, f"{at}", "kept") for at in range(count)]
    topics.write(after)
    topics.close()
    assert written(topics.kafka["bootstrap.servers"], topic, count) == after


@pytest.mark.parametrize("count", [1, TOGETHER_MIN])
def test_of_two_writers_the_older_one_ends(topics: AuditTopics, count: int) -> None:
    """What it writes then is not read, and it writes nothing any more."""
    topic = f"{topics.writer}.one"
    topics.write([SinkRecord(topic, "0", "older")])
    younger = AuditTopics(topics.session, topics.kafka, topics.writer)
    younger.write([SinkRecord(topic, "1", "younger")])
    for _ in range(2):
        with pytest.raises(TransportFencedError, match="another auditor"):
            topics.write([SinkRecord(topic, f"{at}", "late") for at in range(count)])
    younger.close()
    told = written(topics.kafka["bootstrap.servers"], topic, 2)
    assert [one.value for one in told] == ["older", "younger"]
