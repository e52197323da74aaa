"""A real broker answers an EndTxn too late: the next transaction has a new epoch. Spec: R3."""

from __future__ import annotations

import os
import signal
import threading
import uuid
from collections.abc import Callable, Sequence

import psutil
import pytest

from mesh.errors import TransportUnknownError
from mesh.transport.kafka import RealKafka
from mesh.transport.port import TopicPartition, TopicSpec
from tests.patience import wait_until

pytestmark = pytest.mark.kafka


def test_a_commit_answered_too_late_is_not_followed_under_its_epoch(
    kafka_clusters: Callable[[int], Sequence[str]],
) -> None:
    """The broker stands still while the client waits, and asks again."""
    servers = kafka_clusters(1)[0]
    mark = uuid.uuid4().hex[:8]
    kafka = RealKafka("k", {"bootstrap.servers": servers, "socket.timeout.ms": "1000"})
    topic = f"dirty.{mark}"
    kafka.admin().create([TopicSpec(name=topic, partitions=1)])
    writer = kafka.writer("w", mark)

    def write(value: bytes) -> None:
        writer.begin()
        writer.produce(topic, value, None, 0)
        writer.flush()

    write(b"1")
    writer.commit()
    write(b"2")
    broker = psutil.Process(_listening(servers))
    os.kill(broker.pid, signal.SIGSTOP)
    going_on = threading.Timer(2.0, os.kill, (broker.pid, signal.SIGCONT))
    going_on.start()
    try:
        writer.commit()
    finally:
        going_on.join()
    with pytest.raises(TransportUnknownError, match="sent twice"):
        writer.begin()
    writer = kafka.writer("w", mark)
    write(b"3")
    writer.commit()
    reader = kafka.reader("r")
    reader.assign({TopicPartition(topic, 0): 0})
    found: list[bytes | None] = []

    def all_there() -> bool:
        found.extend(record.value() for record in reader.read(0.2, 10))
        return len(found) >= 3

    wait_until("three records are read", all_there, so_far=lambda: found)
    assert found == [b"1", b"2", b"3"]
    kafka.close()


def _listening(servers: str) -> int:
    """Return the process that listens there."""
    port = int(servers.partition(",")[0].rpartition(":")[2])
    [pid] = {
        one.pid
        for one in psutil.net_connections("tcp")
        if one.status == psutil.CONN_LISTEN and one.laddr.port == port
    }
    return pid
