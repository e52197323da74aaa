"""A small mesh in memory: a, b and c in a multi-hop chain, with an endpoint at c."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.lab.world import World
from mesh.model.frames import MessageClass
from mesh.model.record_headers import SUBJECT_HEADER
from mesh.model.topics import TopicNames
from mesh.transport.memory import MemoryKafka
from mesh.transport.port import BEGINNING, Headers, Record, TopicPartition
from mesh.trees.settings import Settings
from mesh.wire.keys import subscription_key
from mesh.worker.process.commits import Commits, CommitsAtOnce
from mesh.worker.process.errands import Errands, SteppedErrands

CHAIN = {
    "maxMessageBytes": 10_000,
    "kafka": {"k": {}},
    "nodes": {"a": {}, "b": {}, "c": {}},
    "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"]]}},
}


class SmallMesh:
    """The chain, or another mesh of a, b and c, settled, with the endpoint `c/s` for everything."""

    def __init__(
        self,
        spec: Mapping[str, object] = CHAIN,
        errands: Callable[[], Errands] = SteppedErrands,
        trees: Settings | None = None,
        commits: Callable[[], Commits] = CommitsAtOnce,
    ) -> None:
        topology = topology_from_mapping(spec)
        self.world = World(topology, seed=1, errands=errands, trees=trees, commits=commits)
        self.names = TopicNames()
        for node in "abc":
            self.world.start(node)
        self.subscribe("c", "s", ">")
        self.run()

    @property
    def kafka(self) -> MemoryKafka:
        return self.world.kafka["k"]

    def run(self, ms: int = 4000) -> None:
        end = self.world.clock.ms + ms
        self.world.run_until(lambda: self.world.clock.ms >= end, 2 * ms)

    def write(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int = 0,
        headers: Headers = (),
        timestamp: int = 0,
    ) -> None:
        writer = self.kafka.writer("client")
        writer.produce(topic, value, key, partition, timestamp=timestamp, headers=headers)
        assert writer.flush() == 0

    def subscribe(
        self, node: str, endpoint: str, filter_: str, value: bytes | None = b"{}"
    ) -> None:
        self.write(self.names.clients(node), value, key=subscription_key(endpoint, filter_))

    def publish(self, value: bytes | None, headers: Headers, **more: object) -> None:
        self.write(self.names.ingress("a", MessageClass.GUARANTEED), value, headers=headers, **more)

    def read(self, topic: str) -> Sequence[Record]:
        reader = self.kafka.reader("test")
        partitions = range(len(self.kafka.topics[topic].logs))
        reader.assign({TopicPartition(topic, p): BEGINNING for p in partitions})
        return reader.read(0, 100_000)

    def delivered(self) -> Sequence[Record]:
        return self.read(self.names.endpoint("c", "s"))

    def dead_letters(self, node: str = "a") -> Sequence[Record]:
        return self.read(self.names.dead_letters(node))


def subject(text: str) -> tuple[str, bytes]:
    """Return the header that addresses a record."""
    return (SUBJECT_HEADER, text.encode())


@pytest.fixture
def mesh() -> SmallMesh:
    return SmallMesh()
