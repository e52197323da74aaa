"""A real broker takes a batch that the client library cannot unpack. Spec: R12."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

import pytest

from mesh.transport.kafka import RealKafka
from mesh.transport.kafka.consumer import KafkaConsumer
from mesh.transport.kafka.reader import KafkaReader
from mesh.transport.port import BEGINNING, Passed, Record, TopicPartition, TopicSpec
from tests.mock_cluster import write_packed
from tests.patience import wait_until

pytestmark = pytest.mark.kafka


def test_all_that_stands_around_it_is_read(
    kafka_clusters: Callable[[int], Sequence[str]],
) -> None:
    """By a reader, and by the group of a queue, of which a member takes it up in the middle."""
    servers = kafka_clusters(1)[0]
    topic = f"packed.{uuid.uuid4().hex[:8]}"
    kafka = RealKafka("k", {"bootstrap.servers": servers})
    kafka.admin().create([TopicSpec(name=topic, partitions=1)])
    place = TopicPartition(topic, 0)
    write(kafka, topic, b"before")
    write_packed(servers, topic, 5)
    write(kafka, topic, b"after")
    all_of_it = [(0, b"before"), *((offset, None) for offset in range(1, 6)), (6, b"after")]
    reader = kafka.reader("r")
    reader.assign({place: BEGINNING})
    assert read(reader, 7) == all_of_it
    member = kafka.consumer("c", topic, topic)
    assert read(member, 7) == all_of_it
    member.commit({place: Passed(3)})
    member.close()
    left = read(kafka.consumer("c", topic, topic), 5)
    assert [value for _, value in left] == [None] * 4 + [b"after"]
    kafka.close()


def write(kafka: RealKafka, topic: str, value: bytes) -> None:
    """Write one record, in a transaction: markers stand between batches then."""
    writer = kafka.writer("w", topic)
    writer.begin()
    writer.produce(topic, value, None, 0)
    writer.commit()
    writer.close()


def read(reader: KafkaReader | KafkaConsumer, count: int) -> Sequence[tuple[int, bytes | None]]:
    """Read so many records; tell them by their order."""
    found: list[Record] = []

    def all_there() -> bool:
        found.extend(reader.read(0.1, 100))
        return len(found) >= count

    wait_until(f"{count} records", all_there, so_far=lambda: found)
    assert [one.offset() for one in found] == sorted(one.offset() for one in found)
    return [(number, one.value()) for number, one in enumerate(found)]
