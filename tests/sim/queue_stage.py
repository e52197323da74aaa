"""A simulated mesh, its publishers and the consumers of one queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mesh.client import MeshClient, QueueConsumer
from mesh.errors import TransportError
from mesh.model.control import EndpointKind, Subscription
from mesh.transport.port import TopicPartition
from mesh.wire.keys import subscription_key
from mesh.wire.subscriptions import encode_subscription
from tests.component.in_memory_mesh import Mesh

CHAIN: Mapping[str, object] = {
    "kafka": {"one": None, "two": None},
    "nodes": {
        "p": {"kafka": "one"},
        "r": {"kafka": "two"},
        "s": {"kafka": "one"},
        "t": {"kafka": "two"},
    },
    "zones": {"Z": {"kind": "multi-hop", "links": [["p", "r"], ["r", "s"], ["s", "t"]]}},
}
HOME = {"queues": {"jobs": {"policy": "home", "home": "r"}}}
ANY = {"queues": {"jobs": {"policy": "any"}}}


@dataclass
class Stage:
    """A simulated mesh, its publishers and the consumers of one queue."""

    mesh: Mesh
    consumers: dict[str, list[QueueConsumer]] = field(default_factory=dict)
    got: list[tuple[str, bytes]] = field(default_factory=list)
    published: int = 0
    lost: dict[bytes, None] = field(default_factory=dict)
    _clients: dict[str, MeshClient] = field(default_factory=dict)

    def client(self, node: str) -> MeshClient:
        if node not in self._clients:
            self._clients[node] = self.mesh.client(node)
        return self._clients[node]

    def queue(self, *nodes: str, policy: str | None = None) -> None:
        """Make the queue at nodes, and wait until that is known."""
        for node in nodes:
            kafka = self.mesh.world.kafka[self.mesh.topology.nodes[node].kafka]
            value = encode_subscription(Subscription(EndpointKind.QUEUE, policy=policy))
            writer = kafka.writer("subscriber")
            writer.produce(f"mesh.{node}.clients", value, subscription_key("jobs", "jobs/>"), 0)
        self.mesh.pause(5)

    def publish(self, node: str, count: int) -> None:
        client = self.client(node)
        for _ in range(count):
            client.publish("jobs/x", b"%d" % self.published, key=b"%d" % self.published)
            self.published += 1
        client.flush()

    def consume(self, node: str) -> QueueConsumer:
        consumer = self.client(node).consume("jobs")
        self.consumers.setdefault(node, []).append(consumer)
        return consumer

    def leave(self, node: str) -> None:
        for consumer in self.consumers.pop(node, []):
            consumer.close()

    def step(self, seconds: float = 0.2) -> None:
        """Let the mesh live, and every consumer take what there is."""
        self.mesh.pause(seconds)
        for node, consumers in self.consumers.items():
            for consumer in consumers:
                try:
                    for one in consumer.read(0.0):
                        self.got.append((node, one.message.payload or b""))
                        consumer.ack(one)
                    consumer.commit()
                except TransportError:
                    continue

    def until(self, is_done: Callable[[], bool], limit_s: float = 120) -> None:
        deadline = self.mesh.now_ms() + limit_s * 1000
        while not is_done():
            assert self.mesh.now_ms() < deadline, f"{len(self.got)} of {self.published}"
            self.step()

    def until_all(self, limit_s: float = 120) -> None:
        """Every message is consumed by exactly one consumer of the mesh, and stays so."""
        self.until(lambda: len(self.got) >= self.published, limit_s)
        for _ in range(40):
            self.step()
        counts = Counter(payload for _, payload in self.got)
        assert counts == Counter(b"%d" % number for number in range(self.published))

    def lose(self, node: str, partition: int, records: int) -> None:
        """Let the queue's topic at a node lose its end: what stood there may be gone for good."""
        kafka = self.mesh.world.kafka[self.mesh.topology.nodes[node].kafka]
        if (topic := kafka.topics.get(f"mesh.{node}.ep.jobs")) is None:
            return
        log = topic.logs[partition]
        before = [one for one in log.entries if one is not None]
        kafka.truncate(TopicPartition(topic.info.name, partition), records)
        kept = sum(one is not None for one in log.entries)
        self.lost |= dict.fromkeys(one.value() or b"" for one in before[kept:])

    def until_all_left(self, limit_s: float = 120) -> None:
        """Every message but those lost is consumed by exactly one consumer, and those by no two."""
        owed = {b"%d" % number for number in range(self.published)} - self.lost.keys()
        self.until(lambda: owed <= {payload for _, payload in self.got}, limit_s)
        for _ in range(40):
            self.step()
        assert len({payload for _, payload in self.got}) == len(self.got)

    def by_node(self) -> Counter[str]:
        return Counter(node for node, _ in self.got)

    def held(self, node: str) -> int:
        """Messages that the queue's topic at a node has ever had."""
        kafka = self.mesh.world.kafka[self.mesh.topology.nodes[node].kafka]
        topic = kafka.topics.get(f"mesh.{node}.ep.jobs")
        logs = topic.logs if topic is not None else []
        return sum(record is not None for log in logs for record in log.entries)


Start = Callable[[Mapping[str, object]], Stage]
