"""The image of our Kafka broker works: three containers are three Kafka clusters."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.e2e.kafka_container import KafkaContainer

# Without images at hand the first run makes a whole Debian.
pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def containers(kafka_image: str) -> Iterator[Sequence[KafkaContainer]]:
    """Three containers that run; each is stopped whatever happens, for no reaper does it."""
    started: list[KafkaContainer] = []
    try:
        for _ in range(3):
            container = KafkaContainer(kafka_image)
            started.append(container)
            container.start()
        yield started
    finally:
        for container in started:
            container.stop(force=True, delete_volume=True)


def round_trip(bootstrap: str, values: Sequence[bytes]) -> list[bytes | None]:
    """Produce in a transaction and read back through a consumer group."""
    topic = f"t-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value=value)
    producer.commit_transaction(30)
    settings = {"group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.subscribe([topic])
    try:
        records = consumer.consume(len(values), timeout=30)
        return [record.value() for record in records]
    finally:
        consumer.close()


def test_three_containers_are_three_kafka_clusters(containers: Sequence[KafkaContainer]) -> None:
    """Each has an identity of its own and serves transactions through its mapped port."""
    identities = [container.wait_ready() for container in containers]
    assert len(set(identities)) == 3
    for container, identity in zip(containers, identities, strict=True):
        values = [f"{identity}-{index}".encode() for index in range(20)]
        assert round_trip(container.bootstrap_servers, values) == values


def test_broker_runs_without_root(containers: Sequence[KafkaContainer]) -> None:
    """The image's user is not root."""
    code, output = containers[0].exec(["id", "-u"])
    assert (code, output.strip()) == (0, b"1000")
