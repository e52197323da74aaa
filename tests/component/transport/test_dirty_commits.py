"""An EndTxn that may have been sent twice is never followed under the same epoch. Spec: R3.

On the client library's own mock cluster: what it does with a lost answer, it does silently.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from mesh.config.kafka_options import option_faults
from mesh.errors import TransportUnknownError
from mesh.transport.kafka import RealKafka, retries
from mesh.transport.kafka.retries import SLOW_S, Retries
from mesh.transport.kafka.settings import writer_settings
from mesh.transport.kafka.writer import KafkaWriter
from tests.mock_cluster import API_VERSIONS, END_TXN, TRANSPORT, MockCluster, mock_cluster

Options = dict[str, str]


@pytest.fixture
def brokers() -> Iterator[MockCluster]:
    with mock_cluster() as cluster:
        cluster.create("t")
        yield cluster


def open_writer(brokers: MockCluster, **options: str) -> tuple[RealKafka, KafkaWriter]:
    dotted = {name.replace("_", "."): value for name, value in options.items()}
    kafka = RealKafka("k", {"bootstrap.servers": brokers.servers, **dotted})
    writer = kafka.writer("w", "id")
    commit(writer)
    return kafka, writer


def commit(writer: KafkaWriter) -> None:
    writer.begin()
    writer.produce("t", b"v", b"k", 0)
    writer.commit()


def while_it_runs(action: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=action)
    thread.start()
    return thread


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"log_connection_close": "false"},
        {"statistics_interval_ms": "0", "socket_max_fails": "0"},
    ],
    ids=["plain", "no log of closed connections", "options that would blind it"],
)
def test_after_a_lost_answer_the_writer_is_spent(
    brokers: MockCluster, times: int, options: Options
) -> None:
    """The commit itself is reported as it is: committed."""
    kafka, writer = open_writer(brokers, **options)
    brokers.push(END_TXN, [TRANSPORT] * times)
    began_s = time.monotonic()
    commit(writer)
    assert time.monotonic() - began_s >= SLOW_S  # what is quicker is never asked about
    for _ in range(2):
        with pytest.raises(TransportUnknownError, match="sent twice under id"):
            writer.begin()
    commit(kafka.writer("w", "id"))
    kafka.close()


def test_after_a_lost_answer_to_an_abort_too(brokers: MockCluster) -> None:
    kafka, writer = open_writer(brokers)
    brokers.push(END_TXN, [TRANSPORT])
    writer.begin()
    writer.produce("t", b"v", b"k", 0)
    writer.flush()
    writer.abort()
    with pytest.raises(TransportUnknownError):
        writer.begin()
    kafka.close()


def test_after_an_answer_that_came_too_late(brokers: MockCluster) -> None:
    kafka, writer = open_writer(brokers, socket_timeout_ms="1000")
    writer.begin()
    writer.produce("t", b"v", b"k", 0)
    writer.flush()
    brokers.watch()
    brokers.slow(1, 1_500)

    def heal() -> None:
        brokers.wait_asked(API_VERSIONS, 1)  # the client has given the connection up
        brokers.slow(1, 0)

    healing = while_it_runs(heal)
    writer.commit()
    healing.join()
    with pytest.raises(TransportUnknownError):
        writer.begin()
    kafka.close()


def test_after_a_broker_that_went_away_under_it(brokers: MockCluster) -> None:
    kafka, writer = open_writer(brokers)
    writer.begin()
    writer.produce("t", b"v", b"k", 0)
    writer.flush()
    brokers.watch()
    brokers.slow(1, 5_000)  # it goes before it answers

    def restart() -> None:
        brokers.wait_asked(END_TXN, 1)
        brokers.down(1)
        brokers.slow(1, 0)
        brokers.up(1)

    restarting = while_it_runs(restart)
    writer.commit()
    restarting.join()
    with pytest.raises(TransportUnknownError):
        writer.begin()
    kafka.close()


def test_a_slow_broker_alone_makes_no_writer_anew(
    brokers: MockCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its statistics prove it, each time."""
    monkeypatch.setattr(retries, "SLOW_S", 0.0)  # so any broker is slow
    kafka, writer = open_writer(brokers)
    for _ in range(4):
        commit(writer)
    writer.begin()
    writer.abort()
    kafka.close()


def test_a_quick_commit_waits_for_nothing(
    brokers: MockCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "SLOW_S", 5.0)  # a busy machine is as slow as a back-off
    kafka, writer = open_writer(brokers)
    for _ in range(20):
        commit(writer)
        assert not writer._state.retries.needs_proof or writer._state.retries.is_dirty
    kafka.close()


def test_statistics_of_an_idle_writer_do_not_pile_up(brokers: MockCluster) -> None:
    """Somebody takes them in; else ten a second would be kept for ever."""
    kafka, writer = open_writer(brokers)
    deadline_s = time.monotonic() + 10
    before = writer._state.retries._received_s
    while writer._state.retries._received_s == before:
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    kafka.close()


def test_options_that_would_blind_it_are_not_the_operators() -> None:
    blind = {
        "statistics.interval.ms": "0",
        "retry.backoff.ms": "1",
        "retry.backoff.max.ms": "1",
        "socket.max.fails": "0",
    }
    assert [code for _, code, _ in option_faults(blind)] == ["MANAGED_KEY"] * len(blind)
    made = writer_settings(blind, "c", "id", 1_000_000)
    assert not blind.items() & made.items()


# -- the rule itself ------------------------------------------------------------------------------


class Library:
    """A client library that counts and a clock; both move as the test says."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.retries = Retries(lambda: self.now_s)
        self.retries.taken()

    def tell(self, count: int, *, at_s: float | None = None) -> None:
        stamp = int((self.now_s if at_s is None else at_s) * 1e6)
        brokers = f'"b1": {{"txretries":{count}, "req_timeouts":0, "disconnects":0}}'
        topics = '{"x": {"txretries":99}}'
        self.retries.on_statistics(
            f'{{"ts":{stamp}, "brokers": {{{brokers}}}, "topics": {topics}}}'
        )

    def transact(self, took_s: float) -> None:
        self.retries.begun()
        self.now_s += took_s
        self.retries.ended(took_s)


def test_statistics_from_before_the_end_prove_nothing() -> None:
    library = Library()
    library.tell(0)
    library.transact(0.2)
    library.tell(0, at_s=library.now_s - 0.1)
    assert library.retries.needs_proof
    library.now_s += 0.1
    library.tell(0)
    assert not library.retries.needs_proof
    assert not library.retries.is_dirty


def test_what_was_repeated_before_a_taking_or_between_transactions_disturbs_nothing() -> None:
    library = Library()
    library.tell(7)
    library.transact(0.001)
    library.now_s += 0.1
    library.tell(7)
    library.now_s += 600
    library.tell(8)  # an idle connection that a broker closed
    assert not library.retries.is_dirty


def test_a_repetition_in_a_quick_transaction_counts_too() -> None:
    library = Library()
    library.tell(0)
    library.transact(0.001)
    library.now_s += 0.1
    library.tell(1)
    assert library.retries.is_dirty


def test_a_slow_first_transaction_is_clean_only_if_nothing_was_ever_repeated() -> None:
    for count, is_dirty in ((0, False), (1, True)):
        library = Library()
        library.transact(0.2)
        library.now_s += 0.1
        library.tell(count)
        assert library.retries.is_dirty is is_dirty


def test_a_clock_of_another_kind_costs_patience_only() -> None:
    """Where the library counts from 1970 its word is as old as the one before."""
    library = Library()
    library.tell(0, at_s=1.7e9)
    library.transact(0.2)
    library.now_s += 0.1
    library.tell(0, at_s=1.7e9)
    assert library.retries.needs_proof
    library.now_s += 0.1
    library.tell(0, at_s=1.7e9)
    assert not library.retries.needs_proof
