"""A topic that is recreated after elections is read, on three real brokers. Spec: R6."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from mesh.local.embedded import EmbeddedKafka
from mesh.local.jars import KafkaSoftware
from mesh.transport.kafka import RealKafka
from mesh.transport.port import Record, TopicPartition
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.kafka

AT = TopicPartition("t", 0)


def test_a_topic_recreated_after_elections_is_read(
    kafka_software: KafkaSoftware, tmp_path: Path
) -> None:
    """Its leader begins with a lower epoch than the former one's: the client library believes none.

    So a reader that goes on without learning anew asks the former leader for ever.
    """
    brokers = EmbeddedKafka.start("k", tmp_path, brokers=3, software=kafka_software)
    kafka = RealKafka("k", {"bootstrap.servers": brokers.bootstrap_servers})
    client = AdminClient({"bootstrap.servers": brokers.bootstrap_servers})
    found: list[Record] = []

    def make(leaders: Sequence[int]) -> None:
        topic = NewTopic(AT.topic, 1, replica_assignment=[list(leaders)])
        client.create_topics([topic])[AT.topic].result(PATIENCE_S)

    def leader() -> int:
        return int(client.list_topics(AT.topic, 10).topics[AT.topic].partitions[0].leader)

    def write(value: bytes) -> None:
        writer = kafka.writer("w")
        writer.produce(AT.topic, value, partition=0)
        assert writer.flush(PATIENCE_S) == 0
        writer.close()

    def has(value: bytes) -> bool:
        found.extend(reader.read(0.2, 100))
        return value in [one.value() for one in found]

    try:
        make([1, 2, 3])
        write(b"before")
        reader = kafka.reader("r")
        reader.assign({AT: 0})
        wait_until("the first record", lambda: has(b"before"))
        brokers.kill(1)
        wait_until("an election", lambda: leader() not in (1, -1))
        brokers.restart(1)
        write(b"elected")
        wait_until("a record of the second leader", lambda: has(b"elected"))
        former = leader()
        reader.unassign([AT])
        reader.read(0.2, 100)
        client.delete_topics([AT.topic])[AT.topic].result(PATIENCE_S)
        wait_until("the end", lambda: AT.topic not in client.list_topics(timeout=10).topics)
        make([*(one for one in (1, 2, 3) if one != former), former])
        write(b"again")
        reader.renew()
        reader.assign({AT: 0})
        wait_until("a record of the topic recreated", lambda: has(b"again"))
    finally:
        kafka.close()
        brokers.stop()
