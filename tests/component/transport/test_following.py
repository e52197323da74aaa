"""Reading to an end: long logs take their time, and only what stands still is a fault."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator

import pytest

from mesh.errors import ClosedError, TransportUnavailableError
from mesh.transport.following import DEADLINE_MS, Follower
from mesh.transport.memory import MemoryKafka
from mesh.transport.port import Record, TopicPartition, TopicSpec
from tests.patience import PATIENCE_S

PLACE = TopicPartition("t", 0)


def kafka_with(records: int) -> MemoryKafka:
    kafka = MemoryKafka("k")
    kafka.admin().create([TopicSpec(name=PLACE.topic, partitions=1)])
    writer = kafka.writer("w")
    for number in range(records):
        writer.produce(PLACE.topic, str(number).encode(), None, 0)
    assert writer.flush() == 0
    return kafka


def slow_follower(kafka: MemoryKafka) -> Follower:
    """Return one for which most of the deadline passes between two looks at the clock."""
    clock = itertools.count(0, DEADLINE_MS * 2 // 3)
    follower = Follower(kafka, "f", lambda: next(clock))
    follower.add([PLACE])
    return follower


def test_a_long_log_is_read_to_its_end_however_long_that_takes() -> None:
    follower = slow_follower(kafka_with(30_000))
    assert sum(1 for _ in follower.poll()) == 30_000


def test_an_end_behind_an_open_transaction_is_waited_for_so_long_and_no_longer() -> None:
    kafka = kafka_with(1)
    writer = kafka.writer("w", "hanging")
    writer.begin()
    writer.produce(PLACE.topic, b"open", None, 0)
    follower = slow_follower(kafka)
    with pytest.raises(TransportUnavailableError, match="nothing came for 60 s"):
        list(follower.catch_up())


def test_who_waits_for_an_end_ends_when_another_thread_closes() -> None:
    """Ctrl-C closes what threads of a command read, and waits for them."""
    kafka = kafka_with(1)
    writer = kafka.writer("w", "hanging")
    writer.begin()
    writer.produce(PLACE.topic, b"open", None, 0)
    follower = Follower(kafka, "f", lambda: 0)
    follower.add([PLACE])
    has_read, told = threading.Event(), list[str]()

    def reads() -> None:
        try:
            for _ in follower.catch_up():
                has_read.set()
        except ClosedError as error:
            told.append(str(error))

    thread = threading.Thread(target=reads, daemon=True)
    thread.start()
    assert has_read.wait(PATIENCE_S)
    follower.close()
    thread.join(PATIENCE_S)
    assert told == ["a follower is used after it was closed"]


@pytest.mark.parametrize("look", [Follower.poll, Follower.catch_up, Follower.glance])
@pytest.mark.parametrize("fresh", [1, 7])
def test_a_topic_that_was_recreated_is_followed_from_its_beginning(
    look: Callable[[Follower], Iterator[Record]], fresh: int
) -> None:
    """Who looks for weeks would take a node for down whose control topic was deleted once."""
    kafka = kafka_with(5)
    follower = slow_follower(kafka)
    assert [one.value() for one in follower.poll()] == [b"0", b"1", b"2", b"3", b"4"]
    kafka.admin().delete([PLACE.topic])
    kafka.admin().create([TopicSpec(name=PLACE.topic, partitions=1)])
    list(look(follower))
    writer = kafka.writer("w")
    for number in range(fresh):
        writer.produce(PLACE.topic, f"new {number}".encode(), None, 0)
    writer.flush()
    found = [one.value() for _ in range(3) for one in look(follower)]
    assert found == [f"new {number}".encode() for number in range(fresh)]
    writer.produce(PLACE.topic, b"later", None, 0)
    assert [one.value() for one in look(follower)] == [b"later"]


def test_what_was_deleted_unread_is_passed_over() -> None:
    kafka = kafka_with(5)
    follower = slow_follower(kafka)
    list(follower.poll())
    writer = kafka.writer("w")
    for number in range(5, 9):
        writer.produce(PLACE.topic, str(number).encode(), None, 0)
    kafka.admin().delete_before({PLACE: 8})
    assert [one.value() for one in follower.poll()] == [b"8"]
