"""A client that is closed ends, with its threads, whoever still holds the error that it ended with.

Workers collect cyclic garbage so rarely that a client in a cycle stays for ever; a transactional one
then piles up its statistics, a megabyte a second where brokers are slow and topics many.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mesh.errors import TransportError, TransportFencedError
from mesh.transport.kafka import RealKafka, writer
from mesh.transport.kafka.writer import KafkaWriter
from tests.mock_cluster import END_TXN, TRANSPORT, MockCluster, mock_cluster

DEADLINE_S = 10
PRODUCER_FENCED = 90


@pytest.fixture
def brokers() -> Iterator[MockCluster]:
    with mock_cluster() as cluster:
        cluster.create("t")
        yield cluster


@pytest.fixture(autouse=True)
def nothing_is_collected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def clients() -> int:
    """Return how many clients of the library there are: each has one main thread."""
    return sum(name_of(task).startswith("rdk:main") for task in Path("/proc/self/task").iterdir())


def name_of(task: Path) -> str:
    try:
        return (task / "comm").read_text("utf-8")
    except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        return ""


def awaited(count: int) -> bool:
    deadline_s = time.monotonic() + DEADLINE_S
    while clients() > count and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return clients() <= count


def commit(one: KafkaWriter, topic: str = "t") -> None:
    one.begin()
    one.produce(topic, b"v", b"k", 0)
    one.commit()


def fenced(brokers: MockCluster, kafka: RealKafka) -> TransportError:
    one = kafka.writer("w", "id")
    commit(one)
    brokers.push(END_TXN, [PRODUCER_FENCED])
    with pytest.raises(TransportFencedError) as caught:
        commit(one)
    one.close()
    return caught.value


def sent_twice(brokers: MockCluster, kafka: RealKafka) -> TransportError:
    one = kafka.writer("w", "id")
    commit(one)
    brokers.push(END_TXN, [TRANSPORT])
    commit(one)
    with pytest.raises(TransportError) as caught:
        one.begin()
    one.close()
    return caught.value


def refused(brokers: MockCluster, kafka: RealKafka) -> TransportError:
    one = kafka.writer("w", "id")
    with pytest.raises(TransportError) as caught:
        commit(one, "nowhere")
    one.close()
    return caught.value


def never_opened(brokers: MockCluster, kafka: RealKafka) -> TransportError:
    brokers.down(1)
    with pytest.raises(TransportError) as caught:
        kafka.writer("w", "id")
    return caught.value


def nobody_answers(brokers: MockCluster, kafka: RealKafka) -> TransportError:
    one = kafka.writer("w", "id")
    one.begin()
    one.produce("t", b"v", b"k", 0)
    brokers.down(1)
    with pytest.raises(TransportError) as caught:
        one.commit()
    one.close()
    return caught.value


def closed_meanwhile(brokers: MockCluster, kafka: RealKafka) -> TransportError:
    """Another thread closes the writer whose commit nobody answers."""
    one = kafka.writer("w", "id")
    one.begin()
    one.produce("t", b"v", b"k", 0)
    brokers.down(1)
    with ThreadPoolExecutor(1) as other:
        committing = other.submit(one.commit)
        one.close()
        error = committing.exception(DEADLINE_S)
    assert isinstance(error, TransportError)
    return error


ENDS = [fenced, sent_twice, refused, never_opened, nobody_answers, closed_meanwhile]


@pytest.mark.parametrize("end", ENDS)
def test_a_closed_writer_has_no_client(
    brokers: MockCluster,
    monkeypatch: pytest.MonkeyPatch,
    end: Callable[[MockCluster, RealKafka], TransportError],
) -> None:
    monkeypatch.setattr(writer, "OPEN_DEADLINE_S", 2)
    monkeypatch.setattr("mesh.transport.kafka.transactions.COMMIT_DEADLINE_S", 2)
    before = clients()
    kafka = RealKafka("k", {"bootstrap.servers": brokers.servers})
    error = end(brokers, kafka)
    assert awaited(before), error
    kafka.close()
