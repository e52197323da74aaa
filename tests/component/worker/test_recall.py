"""What a worker reads early of its node's own topics, and what has become of these since. K16."""

from __future__ import annotations

import pytest

from mesh.transport.memory import MemoryKafka
from mesh.transport.port import TopicPartition, TopicSpec
from mesh.worker.process.recall import Recall

FIRST, SECOND = (TopicPartition("mesh.a.progress", number) for number in range(2))


def write(kafka: MemoryKafka, at: TopicPartition, *values: bytes) -> None:
    writer = kafka.writer("w")
    for value in values:
        writer.produce(at.topic, value, partition=at.partition)
    assert writer.flush() == 0


@pytest.mark.parametrize("news", [(), (b"new",)])
@pytest.mark.parametrize("is_recreated", [True, False])
def test_nothing_of_a_former_log_is_mixed_with_the_one_that_is_there(
    news: tuple[bytes, ...], *, is_recreated: bool
) -> None:
    """It was fetched with another partition, before the topic was recreated, or was cut off."""
    kafka = MemoryKafka("k")
    kafka.admin().create([TopicSpec(name=FIRST.topic, partitions=2)])
    write(kafka, SECOND, b"0", b"1", b"2")
    recall = Recall(kafka, [FIRST, SECOND], lambda: 0)
    assert list(recall.records(FIRST)) == []
    if is_recreated:
        kafka.recreate(FIRST.topic)
    else:
        kafka.truncate(SECOND, 3)
    write(kafka, SECOND, *news)
    assert [record.value() for record in recall.records(SECOND)] == list(news)
