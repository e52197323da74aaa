"""One suite for both forms of the ports: what passes on one must pass on the other."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from mesh.transport.kafka import RealKafka
from mesh.transport.memory import MemoryKafka
from mesh.transport.port import BEGINNING, KafkaCluster, Reader, Record, TopicPartition, TopicSpec
from tests.patience import PATIENCE_S, wait_until

_READ_S = 0.2
_NUMBERS = itertools.count(1)


@dataclass
class Stand:
    """A Kafka cluster under test and what the ports do not offer but a test needs."""

    kafka: KafkaCluster
    delete_topic: Callable[[str], None]
    commit_group: Callable[[str, Mapping[TopicPartition, int]], None]
    now_ms: Callable[[], int]
    mark: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    def topic(self, partitions: int = 1, **settings: str) -> str:
        """Create a topic with a name of its own; `_` in a setting's name stands for a dot."""
        name = f"contract.{self.mark}.{next(_NUMBERS)}"
        dotted = {key.replace("_", "."): value for key, value in settings.items()}
        self.kafka.admin().create([TopicSpec(name=name, partitions=partitions, settings=dotted)])
        return name

    def reader(self, *places: TopicPartition, start: int = BEGINNING) -> Reader:
        """Return a reader of these partitions."""
        reader = self.kafka.reader("contract-reader")
        reader.assign(dict.fromkeys(places, start))
        return reader

    def take(self, reader: Reader, count: int) -> list[Record]:
        """Read until there are `count` records."""
        found: list[Record] = []

        def is_enough() -> bool:
            if len(found) < count:
                found.extend(reader.read(_READ_S, 1_000))
            return len(found) >= count

        self.wait(is_enough)
        return found

    def drain(self, reader: Reader, *places: TopicPartition) -> list[Record]:
        """Read to the present ends, markers included."""
        ends = self.kafka.admin().ends(places)
        found: list[Record] = []

        def is_read() -> bool:
            found.extend(reader.read(_READ_S, 1_000))
            return all(reader.position(place) >= end for place, end in ends.items())

        self.wait(is_read)
        return found

    def quiet(self, reader: Reader) -> Sequence[Record]:
        """Return what still comes, which should be nothing."""
        return [record for _ in range(3) for record in reader.read(_READ_S, 1_000)]

    def wait(self, is_done: Callable[[], object], *, pace_s: float = 0) -> None:
        """Try until it is done, or fail. Calls that never wait themselves want a pace."""
        wait_until("it is done", is_done, pace_s=pace_s)


def values(records: Sequence[Record]) -> list[bytes | None]:
    """Return the values."""
    return [record.value() for record in records]


def _memory() -> Stand:
    clock = itertools.count(1_700_000_000_000)
    kafka = MemoryKafka("memory", now_ms=lambda: next(clock))
    return Stand(kafka, kafka.delete_topic, kafka.commit_group, lambda: next(clock))


def _real(bootstrap: str) -> Stand:
    kafka = RealKafka("real", {"bootstrap.servers": bootstrap}, client_prefix="contract")
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": "0"})

    def delete_topic(name: str) -> None:
        client.delete_topics([name])[name].result(PATIENCE_S)
        wait_until(f"{name} is gone", lambda: not kafka.admin().describe([name]), pace_s=0)

    def commit_group(group: str, positions: Mapping[TopicPartition, int]) -> None:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": "0"})
        places = [Place(at.topic, at.partition, offset) for at, offset in positions.items()]
        consumer.commit(offsets=places, asynchronous=False)
        consumer.close()

    return Stand(kafka, delete_topic, commit_group, lambda: time.time_ns() // 1_000_000)


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.kafka)])
def stand(request: pytest.FixtureRequest) -> Iterator[Stand]:
    """A Kafka cluster: in memory, and real."""
    if request.param == "memory":
        made = _memory()
    else:
        clusters = cast("Callable[[int], Sequence[str]]", request.getfixturevalue("kafka_clusters"))
        made = _real(clusters(1)[0])
    yield made
    made.kafka.close()
