"""What a reader is moved to holds, also where brokers had not told yet where a log begins.

The client library (as of 2.16) asks again for what it was moved away from, and goes there: all that
was handed out comes once more. On its own mock cluster.
"""

from __future__ import annotations

import time

import pytest

from mesh.transport.kafka import RealKafka
from mesh.transport.port import BEGINNING, Reader, TopicPartition
from tests.mock_cluster import MockCluster, mock_cluster

AT, OTHER = TopicPartition("t", 0), TopicPartition("warm", 0)
COUNT = 5
SLOW_MS = 300
LATE_S = 5.0
"""The client library asks again after half a second, and brokers are slow."""


def offsets(reader: Reader, seconds: float) -> list[int]:
    deadline_s = time.monotonic() + seconds
    found: list[int] = []
    while time.monotonic() < deadline_s:
        found += [one.offset() for one in reader.read(0.05, 100) if one.topic() == AT.topic]
    return found


def begin_late(brokers: MockCluster) -> tuple[RealKafka, Reader]:
    """Return a reader that waits for word where a log begins."""
    kafka = RealKafka("k", {"bootstrap.servers": brokers.servers})
    for topic in (AT.topic, OTHER.topic):
        brokers.create(topic)
    for _ in range(COUNT):
        brokers.write(AT.topic, b"v", [])
    reader = kafka.reader("r", topics=[AT.topic, OTHER.topic])
    reader.assign({OTHER: 0})
    reader.read(1.0, 100)
    brokers.slow(1, SLOW_MS)
    reader.assign({AT: BEGINNING})
    reader.read(0.05, 100)
    return kafka, reader


@pytest.mark.parametrize("leaves_between", [False, True])
def test_it_is_moved_before_it_is_known_where_the_log_begins(leaves_between: bool) -> None:
    with mock_cluster() as brokers:
        kafka, reader = begin_late(brokers)
        if leaves_between:
            reader.unassign([AT])
            reader.read(0.05, 100)
        reader.assign({AT: 3})
        assert offsets(reader, LATE_S) == [3, 4]
        kafka.close()
