"""A mesh of one node on in-memory Kafka, with an endpoint that gets all that is published there."""

from __future__ import annotations

from mesh.config.topology_file import topology_from_mapping
from mesh.lab.world import World
from mesh.model.topics import TopicNames
from mesh.transport.port import BEGINNING, Record, TopicPartition
from mesh.wire.keys import subscription_key
from tests.component.worker.conftest import subject
from tests.component.worker.test_commits import Slow

INGRESS, ENDPOINT = "mesh.a.in.g", "mesh.a.ep.s"


class OneNode:
    """Node `a` with the endpoint `s`, settled; its commits take as long as somebody says.

    Args:
        lanes: How many it has, and partitions.
    """

    def __init__(self, lanes: int) -> None:
        self.slow, self.names = Slow(), TopicNames()
        nodes = {"a": {"lanes": lanes, "partitions": lanes}}
        topology = topology_from_mapping({"kafka": {"k": {}}, "nodes": nodes})
        self.world = World(topology, seed=1, commits=lambda: self.slow)
        self.kafka = self.world.kafka["k"]
        self.published = 0
        self.world.start("a")
        self.run(4_000)
        self.write(self.names.clients("a"), b"{}", subscription_key("s", ">"))
        self.run(4_000)

    def run(self, ms: int) -> None:
        end = self.world.clock.ms + ms
        self.world.run_until(lambda: self.world.clock.ms >= end, 2 * ms)

    def write(self, topic: str, value: bytes | None, key: bytes) -> None:
        writer = self.kafka.writer("operator")
        writer.produce(topic, value, key, 0)
        assert writer.flush() == 0

    def publish(self, count: int, partition: int = 0) -> None:
        """Publish numbers, each once."""
        writer = self.kafka.writer("client")
        for _ in range(count):
            value = b"%d" % self.published
            writer.produce(INGRESS, value, partition=partition, headers=[subject("x")])
            self.published += 1
        assert writer.flush() == 0

    def records(self, topic: str, partition: int = 0) -> list[Record]:
        """Return what a naive reader finds there from the beginning."""
        reader = self.kafka.reader("naive")
        reader.assign({TopicPartition(topic, partition): BEGINNING})
        return list(reader.read(0, 100_000))

    def numbers(self, topic: str, partition: int = 0) -> list[int]:
        """Return what was published of that; an announcement has no value."""
        found = [record.value() for record in self.records(topic, partition)]
        return [int(value) for value in found if value is not None]
