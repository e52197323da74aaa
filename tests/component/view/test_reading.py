"""A part of a log is read to its end, or the reader says that it was not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from mesh.errors import TransportUnavailableError
from mesh.transport.memory import MemoryKafka
from mesh.transport.memory_clients import MemoryReader
from mesh.transport.port import Record, TopicPartition, TopicSpec
from mesh.transport.reading import read_range

PLACE = TopicPartition("log", 0)


def kafka_with(records: int) -> MemoryKafka:
    kafka = MemoryKafka("k")
    kafka.admin().create([TopicSpec(name="log", partitions=1, settings={})])
    writer = kafka.writer("w")
    for number in range(records):
        writer.produce("log", b"%d" % number, b"k", 0)
    writer.flush()
    return kafka


def values(kafka: MemoryKafka, begins: Mapping[TopicPartition, int], end: int) -> list[bytes]:
    return [record.value() or b"" for record in read_range(kafka, begins, {PLACE: end})]


def test_a_part_is_read_and_no_more() -> None:
    assert values(kafka_with(5), {PLACE: 1}, 4) == [b"1", b"2", b"3"]
    assert values(kafka_with(5), {PLACE: 4}, 4) == []


def test_an_end_that_is_not_reached_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shorter answer would look like the whole one."""
    kafka = kafka_with(5)

    def stalls(_self: MemoryReader, _timeout_s: float, _limit: int) -> Sequence[Record]:
        return ()

    monkeypatch.setattr(MemoryReader, "read", stalls)
    with pytest.raises(TransportUnavailableError, match=r"log\[0\]: offset 5 was not reached"):
        values(kafka, {PLACE: 0}, 5)


def test_what_was_deleted_meanwhile_is_left_out() -> None:
    kafka = kafka_with(5)
    kafka.admin().delete_before({PLACE: 3})
    assert values(kafka, {PLACE: 0}, 5) == [b"3", b"4"]
