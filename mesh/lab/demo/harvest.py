"""The exact count at the end: every record of every endpoint topic, by identity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mesh.lab.demo.endpoints import ENDPOINTS
from mesh.model.frames import Delivery, MessageClass
from mesh.model.topology import Topology
from mesh.transport.following import Follower
from mesh.transport.headers import headers_of
from mesh.transport.port import KafkaCluster, TopicPartition
from mesh.wire.deliveries import delivery_of


@dataclass(slots=True)
class EndpointHarvest:
    """What one endpoint topic holds.

    Attributes:
        distinct: Messages by class, each counted once.
        duplicates: Further records of messages that were there already.
        seen: One byte per offset of each source partition and generation. Spec: K9.
    """

    distinct: Counter[MessageClass] = field(default_factory=Counter)
    duplicates: int = 0
    seen: dict[tuple[bytes, int, int], bytearray] = field(default_factory=dict)

    def take(self, delivery: Delivery) -> None:
        """Count one record."""
        source = delivery.source
        key = (source.topic_id, source.partition, delivery.generation)
        seen = self.seen.setdefault(key, bytearray())
        if delivery.offset >= len(seen):
            seen.extend(bytes(delivery.offset + 1 - len(seen)))
        if seen[delivery.offset]:
            self.duplicates += 1
        else:
            seen[delivery.offset] = 1
            self.distinct[delivery.message_class] += 1


def harvest(
    topology: Topology,
    kafka: Mapping[str, KafkaCluster],
    now_ms: Callable[[], int],
    check: Callable[[], None],
) -> Mapping[str, EndpointHarvest]:
    """Read the endpoint topics of the demo from the first record to the last.

    Args:
        topology: The mesh.
        kafka: Its Kafka clusters.
        now_ms: Clock for the deadline.
        check: Called now and then; may raise to end it.

    Raises:
        TransportUnavailableError: A topic could not be read to its end.
    """
    names = topology.names
    counts = {endpoint.name: EndpointHarvest() for endpoint in ENDPOINTS}
    for name, cluster in kafka.items():
        local = [endpoint for endpoint in ENDPOINTS if topology.nodes[endpoint.node].kafka == name]
        topics = {
            names.endpoint(endpoint.node, endpoint.endpoint): counts[endpoint.name]
            for endpoint in local
        }
        follower = Follower(cluster, "harvest", now_ms)
        try:
            for endpoint in local:
                topic = names.endpoint(endpoint.node, endpoint.endpoint)
                count = topology.nodes[endpoint.node].partitions
                follower.add(TopicPartition.all_of(topic, count))
            for number, record in enumerate(follower.poll()):
                if number % 1000 == 0:
                    check()
                topics[record.topic()].take(delivery_of(headers_of(record)))
        finally:
            follower.close()
    return counts
