"""Pours planted records into real Kafka clusters, and reads what the auditor says of them."""

from __future__ import annotations

import json
import time
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.patience import PATIENCE_S, wait_until
from tests.streaming.planted import PARTITIONS, ROUTE, Plant

KAFKA_OF = {"a": "k1", "b": "k1", "c": "k2"}


@dataclass
class Pour:
    """Writes what was planted since the last time; offsets in Kafka are those of the plant."""

    plant: Plant
    addresses: Mapping[str, str]
    poured: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.producers = {
            # One request at a time: else one that is sent again comes after a later one.
            name: Producer({"bootstrap.servers": address, "linger.ms": 5, "max.in.flight": 1})
            for name, address in self.addresses.items()
        }

    def create(self, *endpoints: str, nodes: Sequence[str] = ROUTE) -> None:
        """Make every topic of the mesh."""
        for node in nodes:
            data = [f"{node}.in.g", f"{node}.in.d"]
            data += [f"{node}.to.{other}.{letter}" for other in nodes for letter in "gd"]
            data += [f"{node}.ep.{one.split('/')[1]}" for one in endpoints if one[0] == node]
            small = [f"{node}.{one}" for one in ("clients", "control", "progress", "ledger")]
            small += [f"{node}.to.{other}.c" for other in nodes]
            topics = [NewTopic(self.plant.prefix + name, PARTITIONS, 1) for name in data]
            topics += [NewTopic(self.plant.prefix + name, 1, 1) for name in small]
            admin = AdminClient({"bootstrap.servers": self.addresses[KAFKA_OF[node]]})
            for future in admin.create_topics(topics).values():
                future.result(PATIENCE_S)
            self._learn_ids(admin, {topic.topic: None for topic in topics})

    def make(self, topic: str, partitions: int) -> None:
        """Make one more topic."""
        admin = self._admin_of(topic)
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(PATIENCE_S)

    def delete(self, topic: str) -> None:
        """Delete a topic, and wait until it is gone."""
        admin = self._admin_of(topic)
        admin.delete_topics([topic])[topic].result(PATIENCE_S)
        wait_until(f"{topic} is gone", lambda: topic not in admin.list_topics(timeout=10).topics)

    def _admin_of(self, topic: str) -> AdminClient:
        node = topic.removeprefix(self.plant.prefix).split(".")[0]
        return AdminClient({"bootstrap.servers": self.addresses[KAFKA_OF.get(node, "k1")]})

    def _learn_ids(self, admin: AdminClient, names: Mapping[str, None]) -> None:
        """Have nodes name their topics by the ids that the broker gave, once it tells them."""
        left = dict(names)

        def are_known() -> bool:
            for name, described in admin.describe_topics(TopicCollection([*left])).items():
                with suppress(KafkaException):
                    self.plant.ids[name] = b64decode(f"{described.result(PATIENCE_S).topic_id}==")
                    del left[name]
            return not left

        wait_until("ids are known", are_known, so_far=lambda: [*left])

    def pour(self) -> None:
        """Write the new records and wait until they are there."""
        for (topic, partition), log in self.plant.logs.items():
            node = topic.removeprefix(self.plant.prefix).split(".")[0]
            producer = self.producers[KAFKA_OF[node]]
            for record in log[self.poured.get((topic, partition), 0) :]:
                producer.produce(
                    topic,
                    record.value,
                    record.key,
                    partition,
                    timestamp=record.at_ms,  # a delivery keeps the client's: K5
                    headers=list(record.headers),
                )
                producer.poll(0)
            self.poured[topic, partition] = len(log)
        for producer in self.producers.values():
            assert producer.flush(PATIENCE_S) == 0


@dataclass
class Reader:
    """Follows one compacted topic of the auditor; `table` is what it says now.

    `log` is all that it said, and `came_s` when each word came, on the monotonic clock.
    """

    address: str
    topic: str
    table: dict[str, dict] = field(default_factory=dict)
    log: list[tuple[str, dict | None]] = field(default_factory=list)
    came_s: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.consumer = Consumer({"bootstrap.servers": self.address, "group.id": "reader"})
        self.consumer.assign([TopicPartition(self.topic, 0, 0)])

    def read(self) -> None:
        while (message := self.consumer.poll(0.2)) is not None:
            if message.error() is None:
                key = message.key().decode()
                value = None if message.value() is None else json.loads(message.value())
                self.log.append((key, value))
                self.came_s.append(time.monotonic())
                if value is None:
                    self.table.pop(key, None)
                else:
                    self.table[key] = value

    def close(self) -> None:
        """Follow it no more."""
        self.consumer.close()

    def wait(self, condition: Callable[[Mapping[str, dict]], bool]) -> None:
        """Read on until the table is as wanted."""

        def holds() -> bool:
            self.read()
            return condition(self.table)

        wait_until(f"{self.topic} is as wanted", holds, pace_s=0, so_far=lambda: self.table)
