"""A reader, or a member of a group, to which nothing more is handed out gets another client.

Spec: G1, K15

On the client library's own mock cluster. What brings the library to a stand on real brokers, an
answer about a leader's epoch that never comes, is stood in for by a partition that it was told to
pause: it says no more of that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place

from mesh.errors import TransportDeniedError
from mesh.transport.kafka import RealKafka, health
from mesh.transport.kafka.consumer import KafkaConsumer
from mesh.transport.kafka.health import LOOK_EVERY_S, STALLED_S, StallDetector
from mesh.transport.kafka.reader import KafkaReader
from mesh.transport.port import BEGINNING, Passed, TopicPartition
from tests.mock_cluster import MockCluster, mock_cluster

STALLS, GOES = TopicPartition("t", 0), TopicPartition("t", 1)
PATIENCE_S = 60.0


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Iterator[RealKafka]:
    monkeypatch.setattr(health, "LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(health, "STALLED_S", 1.0)
    with mock_cluster() as cluster:
        cluster.create("t", partitions=2)
        yield from _opened(cluster)


def _opened(cluster: MockCluster) -> Iterator[RealKafka]:
    kafka = RealKafka("k", {"bootstrap.servers": cluster.servers})
    yield kafka
    kafka.close()


def write(kafka: RealKafka, place: TopicPartition, *values: bytes) -> None:
    writer = kafka.writer("w")
    for value in values:
        writer.produce(place.topic, value, None, place.partition)
    assert writer.flush() == 0
    writer.close()


def read_until(
    reader: KafkaReader | KafkaConsumer, done: Callable[[Sequence[bytes]], bool]
) -> Sequence[bytes]:
    found: list[bytes] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while not done(found):
        assert time.monotonic() < deadline_s, found
        found += [record.value() or b"" for record in reader.read(0.1, 100)]
    return found


def test_a_partition_that_is_fetched_no_more_is_read_on(kafka: RealKafka) -> None:
    reader = kafka.reader("r")
    reader.assign({STALLS: BEGINNING, GOES: BEGINNING})
    write(kafka, STALLS, b"1")
    write(kafka, GOES, b"2")
    read_until(reader, lambda found: sorted(found) == [b"1", b"2"])
    reader._consumer.pause([Place(STALLS.topic, STALLS.partition)])
    write(kafka, STALLS, b"3", b"4")
    assert read_until(reader, lambda found: len(found) > 1) == [b"3", b"4"]
    write(kafka, GOES, b"5")
    assert read_until(reader, lambda found: len(found) > 0) == [b"5"]


def test_one_that_has_all_or_is_outside_its_log_stays_as_it_is(kafka: RealKafka) -> None:
    reader = kafka.reader("r")
    write(kafka, STALLS, b"1")
    reader.assign({STALLS: BEGINNING, GOES: 7})
    read_until(reader, lambda found: found == [b"1"])
    lost: list[TopicPartition] = []
    read_until(reader, lambda _: bool(lost.extend(reader.lost()) or lost))
    assert lost == [GOES]
    write(kafka, GOES, *[b"x"] * 9)
    consumer, looks = reader._consumer, _Counted(reader._stalls.ask)
    reader._stalls.ask = looks
    read_until(reader, lambda _: looks.count > 8)
    assert reader._consumer is consumer


def test_a_member_of_a_group_is_given_the_rest_too(kafka: RealKafka) -> None:
    member = kafka.consumer("c", "g", "t")
    write(kafka, STALLS, b"1")
    write(kafka, GOES, b"2")
    read_until(member, lambda found: sorted(found) == [b"1", b"2"])
    member.commit({at: Passed(1) for at in (STALLS, GOES)})
    member._consumer.pause([Place(STALLS.topic, STALLS.partition)])
    write(kafka, STALLS, b"3", b"4")
    assert read_until(member, lambda found: b"4" in found)[-2:] == [b"3", b"4"]


def test_a_member_that_can_have_no_other_client_keeps_the_one_it_has(
    kafka: RealKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A certificate is being replaced, say: it says so, hands out what it has read, and goes on."""
    member = kafka.consumer("c", "g", "t")
    write(kafka, STALLS, b"1")
    read_until(member, lambda found: found == [b"1"])
    joins, refusals = member._join, []

    def refuses() -> Consumer:
        monkeypatch.setattr(member, "_join", joins)
        write(kafka, GOES, b"2")
        raise TransportDeniedError("no such certificate")

    monkeypatch.setattr(member, "_join", refuses)
    member._consumer.pause([Place(STALLS.topic, STALLS.partition)])
    write(kafka, STALLS, b"3")
    found: list[bytes] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while not (b"3" in found and b"2" in found):
        assert time.monotonic() < deadline_s, found
        try:
            found += [record.value() or b"" for record in member.read(0.1, 100)]
        except TransportDeniedError as exc:
            refusals.append(str(exc))
    assert refusals == ["no such certificate"]


def test_who_joins_again_does_not_wait_until_the_former_client_has_left(
    kafka: RealKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its brokers may hang; and what it gives back by then takes nothing from its successor."""
    member = kafka.consumer("c", "g", "t")
    read_until(member, lambda _: len(member.owned()) == 2)
    leaves = threading.Event()
    monkeypatch.setattr(member, "_beside", _Later(member._beside, leaves))
    member._join_again()
    assert not member.read(0.0, 1)
    leaves.set()
    write(kafka, STALLS, b"1")
    assert read_until(member, bool) == [b"1"]
    owned = dict(member.owned())
    former = cast("Consumer", SimpleNamespace(unassign=lambda: None))
    member._on_revoke(former, [Place(at.topic, at.partition) for at in owned])
    assert member.owned() == owned


class _Later:
    """Has what is done beside a reader begin when the test says so."""

    def __init__(self, beside: ThreadPoolExecutor, gate: threading.Event) -> None:
        self._beside, self._gate = beside, gate

    def submit(self, call: Callable[..., object], *given: Any, **named: Any) -> Future[Any]:
        def wait_and_call() -> object:
            assert self._gate.wait(PATIENCE_S)
            return call(*given, **named)

        return self._beside.submit(wait_and_call)

    def shutdown(self) -> None:
        self._beside.shutdown()


def test_a_member_that_has_all_or_was_told_to_pause_stays(kafka: RealKafka) -> None:
    member = kafka.consumer("c", "g", "t")
    write(kafka, GOES, b"1")
    read_until(member, lambda found: found == [b"1"])
    member.pause([STALLS])
    write(kafka, STALLS, b"2")
    consumer, looks = member._consumer, _Counted(member._stalls.ask)
    member._stalls.ask = looks
    read_until(member, lambda _: looks.count > 8)
    assert member._consumer is consumer


class _Counted:
    def __init__(self, ask: Callable[[Sequence[TopicPartition]], health.Ends]) -> None:
        self._ask = ask
        self.count = 0

    def __call__(self, places: Sequence[TopicPartition]) -> health.Ends:
        self.count += 1
        return self._ask(places)


class Looker:
    """Looks, with a clock and brokers that the test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.answer: Future[Any] = Future()
        self.stalls = StallDetector(lambda places: dict.fromkeys(places, self.answer), self._clock)
        assert not self.stalls.is_due(drained=False)

    def _clock(self) -> float:
        return self.now_s

    def ends_at(self, offset: int) -> None:
        self.answer = Future()
        self.answer.set_result(SimpleNamespace(offset=offset))

    def stalls_at(self, position: int, *, seconds: float = STALLED_S, drained: bool = True) -> bool:
        """Read for so long, from one position; say whether that is a stall."""
        found = False
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.now_s += LOOK_EVERY_S
            assert self.stalls.is_due(drained=drained)
            found |= bool(self.stalls.look({STALLS: position}))
        return found


def test_what_moves_or_has_all_is_no_stall() -> None:
    looker = Looker()
    looker.ends_at(100)
    for position in range(0, 100, 10):
        assert not looker.stalls_at(position, seconds=STALLED_S - LOOK_EVERY_S)
    assert not looker.stalls_at(100, seconds=10 * STALLED_S)


def test_a_stall_takes_a_while_and_ends_with_another_client() -> None:
    looker = Looker()
    looker.ends_at(100)
    assert not looker.stalls_at(
        99, seconds=STALLED_S
    )  # the first answer comes with the second look
    assert looker.stalls_at(99, seconds=2 * LOOK_EVERY_S)
    looker.stalls.begin_again()
    assert not looker.stalls_at(99, seconds=2 * STALLED_S)  # another client may be slow as well
    assert looker.stalls_at(99, seconds=2 * LOOK_EVERY_S)
    assert not looker.stalls_at(100)
    assert looker.stalls_at(100 - 1, seconds=STALLED_S + 2 * LOOK_EVERY_S)


def test_who_was_never_through_with_what_was_fetched_is_not_stalled() -> None:
    looker = Looker()
    looker.ends_at(100)
    assert not looker.stalls_at(5, seconds=10 * STALLED_S, drained=False)


@pytest.mark.parametrize("told", ["a fault", "no offset"])
def test_brokers_that_say_nothing_of_an_end_prove_nothing(told: str) -> None:
    looker = Looker()
    if told == "a fault":
        looker.answer.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
    elif told == "no offset":
        looker.ends_at(-1001)
    assert not looker.stalls_at(5, seconds=10 * STALLED_S)


def test_slow_brokers_are_not_asked_again_before_they_have_answered() -> None:
    looker = Looker()
    looker.now_s += LOOK_EVERY_S
    assert looker.stalls.is_due(drained=True)
    looker.stalls.look({STALLS: 5})
    looker.now_s += 10 * LOOK_EVERY_S
    assert not looker.stalls.is_due(drained=True)
    looker.answer.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
    assert looker.stalls.is_due(drained=True)
