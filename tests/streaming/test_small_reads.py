"""Few records that are read again by a client that stays are those that Spark reads. Spec: K29."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from mesh.errors import TransportUnavailableError
from streaming.connectors import logs, small_reads, source
from streaming.connectors.logs import Logs
from streaming.connectors.small_reads import SmallReader, is_small_read
from streaming.tables.rows import TopicPartition

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


class Log:
    """A topic of two partitions with records of all forms, some of them in transactions."""

    def __init__(self, address: str) -> None:
        self.address, self.topic = address, f"few-{secrets.token_hex(4)}"
        admin = AdminClient({"bootstrap.servers": address})
        for future in admin.create_topics([NewTopic(self.topic, 2, 1)]).values():
            future.result(30)
        self.producer = Producer(
            {"bootstrap.servers": address, "transactional.id": self.topic, "linger.ms": 0}
        )
        self.producer.init_transactions(30)

    def write(self, *values: bytes | None, partition: int = 0, is_kept: bool = True) -> None:
        """Write records in a transaction, and commit or abort it."""
        self.producer.begin_transaction()
        for number, value in enumerate(values):
            headers = [("h", None), ("h", b"\xff"), ("h", b"")][: number % 4]
            key = None if number % 2 else b"k\x00"
            self.producer.produce(
                self.topic, value, key, partition, timestamp=1000 + number, headers=headers
            )
        if is_kept:
            self.producer.commit_transaction(30)
        else:
            self.producer.flush(30)
            self.producer.abort_transaction(30)

    def at(self, partition: int) -> TopicPartition:
        return TopicPartition(self.topic, partition)


@pytest.fixture
def log(kafka_clusters) -> Log:
    made = Log(kafka_clusters(1)[0])
    made.write(b"a", None, b"", b"d", b"e")
    made.write(b"given up", is_kept=False)
    made.write(b"x", b"y", partition=1)
    made.write(b"f")
    return made


@pytest.fixture
def reader(spark: SparkSession, log: Log) -> SmallReader:
    return SmallReader(spark, {"bootstrap.servers": log.address})


def rows(frame: DataFrame | None) -> Sequence[object]:
    assert frame is not None
    return sorted(frame.collect(), key=lambda row: (row["partition"], row["offset"]))


def by_spark(
    reader: SmallReader, ranges: Mapping[TopicPartition, tuple[int, int]]
) -> Sequence[object]:
    return rows(source.again(reader.session, reader.kafka, ranges))


def test_they_are_the_records_that_spark_reads(reader: SmallReader, log: Log) -> None:
    whole = {log.at(0): (0, 10), log.at(1): (0, 3)}
    found = rows(reader.read(whole))
    assert found == by_spark(reader, whole)
    assert [row["value"] for row in found] == [
        *map(bytearray, (b"a",)),
        None,
        *map(bytearray, (b"", b"d", b"e", b"f", b"x", b"y")),
    ]


def test_each_time_it_begins_where_it_is_told(reader: SmallReader, log: Log) -> None:
    for first, end in ((3, 5), (0, 2), (5, 8), (8, 9), (0, 9)):
        ranges = {log.at(0): (first, end)}
        assert rows(reader.read(ranges)) == by_spark(reader, ranges)


def test_what_is_not_committed_yet_is_not_waited_for(reader: SmallReader, log: Log) -> None:
    log.producer.begin_transaction()
    log.producer.produce(log.topic, b"open", partition=1)
    log.producer.flush(30)
    assert len(rows(reader.read({log.at(1): (0, 99)}))) == 2
    log.producer.abort_transaction(30)


def test_large_records_are_left_to_spark(reader: SmallReader, log: Log) -> None:
    assert not is_small_read({log.at(0): (0, small_reads.SMALL_OFFSETS_MAX + 1)})
    large = bytes(900_000)
    log.write(*[large] * 6, partition=1)
    assert reader.read({log.at(1): (0, 9)}) is None
    assert len(rows(reader.read({log.at(1): (0, 2)}))) == 2


def test_what_is_not_there_is_told_and_the_next_time_tried_again(
    reader: SmallReader, log: Log
) -> None:
    with pytest.raises(TransportUnavailableError):
        reader.read({TopicPartition(f"{log.topic}-not", 0): (0, 1)})
    assert len(rows(reader.read({log.at(1): (0, 2)}))) == 2


def test_what_brokers_say_of_many_partitions_is_what_they_say_of_each(
    spark: SparkSession, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = Logs(spark, {"bootstrap.servers": log.address})
    places = [log.at(0), log.at(1), TopicPartition(f"{log.topic}-not", 0)]
    topics = [log.topic, f"{log.topic}-not"]
    asks = (alone.ends, alone.beginnings, alone.stable_ends, lambda all_: alone.since(all_, 0))
    told = [ask(places) for ask in asks]
    described = alone.described(topics)
    assert told[0] == {log.at(0): 10, log.at(1): 3}
    asked, ask_at_once = [], Logs._asked

    def ask_many(self: Logs, code: str, text: str, **more: object) -> str:
        asked.append(text)
        return ask_at_once(self, code, text, **more)

    monkeypatch.setattr(Logs, "_asked", ask_many)
    # Many are asked for at once, and few as well where many have been asked for one by one.
    for bound, value in (("TOGETHER_MIN", 1), ("ALONE_MAX", 0)):
        with monkeypatch.context() as patched:
            patched.setattr(logs, bound, value)
            assert [ask(places) for ask in asks] == told
            assert alone.described(topics) == described != {}
            assert alone.ends([]) == alone.described([]) == {}
        assert len(asked) > len(asks)
        asked.clear()
    assert [ask(places) for ask in asks] == told
    assert not asked
    assert log.topic in alone.topics()
    alone.kafka = {"bootstrap.servers": "127.0.0.1:1"}
    alone.close()
    with pytest.raises(TransportUnavailableError):
        alone.ends(places)
