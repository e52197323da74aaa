"""Batches that the client library cannot unpack, on its own mock cluster. Spec: R12."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future

import pytest

from mesh.errors import TransportUnavailableError
from mesh.transport.headers import UNREADABLE, headers_of
from mesh.transport.kafka import RealKafka, health
from mesh.transport.kafka.consumer import KafkaConsumer
from mesh.transport.kafka.faults import Site
from mesh.transport.kafka.health import StallDetector
from mesh.transport.kafka.reader import KafkaReader
from mesh.transport.kafka.unpacking import IsClosed, PackedBatches, find_end
from mesh.transport.port import BEGINNING, Record, TopicPartition
from tests.mock_cluster import MockCluster, mock_cluster, write_packed

PLACE = TopicPartition("t", 0)
PATIENCE_S = 60.0


@pytest.fixture
def brokers() -> Iterator[MockCluster]:
    with mock_cluster() as cluster:
        cluster.create("t")
        yield cluster


@pytest.fixture
def kafka(brokers: MockCluster) -> Iterator[RealKafka]:
    kafka = RealKafka("k", {"bootstrap.servers": brokers.servers})
    yield kafka
    kafka.close()


def write(kafka: RealKafka, *values: bytes) -> None:
    writer = kafka.writer("w")
    for value in values:
        writer.produce("t", value, None, 0)
    assert writer.flush() == 0
    writer.close()


def read(
    reader: KafkaReader | KafkaConsumer, count: int, limit: int = 100
) -> Sequence[tuple[int, bytes | None]]:
    found: list[Record] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < deadline_s, found
        some = reader.read(0.1, limit)
        assert len(some) <= limit
        found += some
    assert [headers_of(one) is UNREADABLE for one in found] == [not one.value() for one in found]
    return [(one.offset(), one.value()) for one in found]


@pytest.mark.parametrize(("records", "limit"), [(1, 100), (5, 2), (12, 100)])
def test_a_reader_is_told_of_each_record_and_goes_on(
    brokers: MockCluster, kafka: RealKafka, records: int, limit: int
) -> None:
    write(kafka, b"before")
    write_packed(brokers.servers, "t", records)
    write(kafka, b"after")
    reader = kafka.reader("r")
    reader.assign({PLACE: BEGINNING})
    told = [(offset, None) for offset in range(1, records + 1)]
    expected = [(0, b"before"), *told, (records + 1, b"after")]
    assert read(reader, records + 2, limit) == expected
    write(kafka, b"later")
    assert read(reader, 1) == [(records + 2, b"later")]
    assert reader.lost() == []


def test_what_stands_between_two_of_them_is_read(brokers: MockCluster, kafka: RealKafka) -> None:
    for value in (b"a", b"b"):
        write_packed(brokers.servers, "t", 3)
        write_packed(brokers.servers, "t", 2)
        write(kafka, value)
    reader = kafka.reader("r")
    reader.assign({PLACE: BEGINNING})
    packed = [(offset, None) for offset in range(11)]
    assert read(reader, 12) == [*packed[:5], (5, b"a"), *packed[6:], (11, b"b")]


def test_who_begins_in_the_middle_is_told_of_the_rest(
    brokers: MockCluster, kafka: RealKafka
) -> None:
    write_packed(brokers.servers, "t", 4)
    write(kafka, b"after")
    reader = kafka.reader("r")
    reader.assign({PLACE: 2})
    assert read(reader, 3) == [(2, None), (3, None), (4, b"after")]


def test_who_is_moved_meanwhile_goes_there(brokers: MockCluster, kafka: RealKafka) -> None:
    write_packed(brokers.servers, "t", 4)
    write(kafka, b"5", b"6")
    reader = kafka.reader("r")
    reader.assign({PLACE: BEGINNING})
    assert read(reader, 1, 1) == [(0, None)]
    reader.assign({PLACE: 5})
    assert read(reader, 1) == [(5, b"6")]


def test_a_member_of_a_group_is_told_too(brokers: MockCluster, kafka: RealKafka) -> None:
    write(kafka, b"before")
    write_packed(brokers.servers, "t", 3)
    write(kafka, b"after")
    member = kafka.consumer("c", "g", "t")
    all_of_it = [(0, b"before"), (1, None), (2, None), (3, None), (4, b"after")]
    assert read(member, 5, 2) == all_of_it
    member.begin_again()
    assert read(member, 5) == all_of_it


def test_nobody_waits_for_who_seeks(
    brokers: MockCluster, kafka: RealKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where brokers answer no more a reader is closed at once all the same."""
    sought: list[Callable[[], bool]] = []

    def find(*about: object) -> int:
        *_, is_closed = about
        assert callable(is_closed)
        sought.append(is_closed)
        while not is_closed():
            threading.Event().wait(0.01)
        return 0

    monkeypatch.setattr("mesh.transport.kafka.find_end", find)
    write_packed(brokers.servers, "t", 1)
    reader = kafka.reader("r")
    reader.assign({PLACE: BEGINNING})
    deadline_s = time.monotonic() + PATIENCE_S
    while not sought:
        assert time.monotonic() < deadline_s
        assert not reader.read(0.1, 100)
    reader.close()
    assert sought[0]()


@pytest.mark.parametrize("in_group", [False, True])
def test_who_waits_for_the_end_of_one_has_not_stalled(
    brokers: MockCluster, kafka: RealKafka, monkeypatch: pytest.MonkeyPatch, *, in_group: bool
) -> None:
    """With another client the search would begin anew."""
    monkeypatch.setattr(health, "LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(health, "STALLED_S", 0.2)
    is_found = threading.Event()

    def find(*about: object) -> int:
        *_, is_closed = about
        assert callable(is_closed)
        while not (is_found.wait(0.01) or is_closed()):
            pass
        return 1

    monkeypatch.setattr("mesh.transport.kafka.find_end", find)
    write_packed(brokers.servers, "t", 1)
    reader: KafkaReader | KafkaConsumer
    if in_group:
        reader = kafka.consumer("c", "g", "t")
    else:
        reader = kafka.reader("r")
        reader.assign({PLACE: BEGINNING})
    deadline_s = time.monotonic() + PATIENCE_S
    while not reader._packed:
        assert time.monotonic() < deadline_s
        assert not reader.read(0.1, 100)
    client, looks = reader._consumer, list[Sequence[TopicPartition]]()
    look = StallDetector.look

    def note(stalls: StallDetector, positions: Mapping[TopicPartition, int]) -> object:
        looks.append(look(stalls, positions))
        return looks[-1]

    monkeypatch.setattr(StallDetector, "look", note)
    while len(looks) < 20:
        assert time.monotonic() < deadline_s
        assert not reader.read(0.1, 100)
    assert reader._consumer is client
    is_found.set()
    assert read(reader, 1) == [(0, None)]


def test_what_is_read_elsewhere_is_not_sought_first() -> None:
    sought: list[int] = []
    goes_on = threading.Event()

    def find(place: TopicPartition, position: int, is_closed: IsClosed) -> int:
        sought.append(place.partition)
        assert goes_on.wait(PATIENCE_S)
        return position + 1

    batches = PackedBatches(find)
    for partition in range(4):
        batches.note(TopicPartition("t", partition), 5)
    batches.forget(TopicPartition("t", 1))
    batches.forget(TopicPartition("t", 2))
    goes_on.set()
    told: list[int] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while batches:
        assert time.monotonic() < deadline_s
        told += [record.partition() for record in batches.take(100)[0]]
    batches.close()
    assert sought == sorted(told) == [0, 3]  # one that ends while others are asked is told later


def test_who_is_closed_waits_for_no_answer() -> None:
    """Of brokers that do not tell where a partition ends."""
    looks: list[None] = []

    def is_closed() -> bool:
        looks.append(None)
        return True

    with pytest.raises(TransportUnavailableError):
        find_end(Site("k", "nowhere.test:1"), {}, PLACE, 0, Future(), is_closed)
    assert looks
