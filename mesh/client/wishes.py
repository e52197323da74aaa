"""What operators want of a node: a record on `mesh.config` of the node's own Kafka cluster."""

from __future__ import annotations

from collections.abc import Mapping

from mesh.errors import TransportError
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.port import KafkaCluster


def write_wish(
    topology: Topology,
    kafka: Mapping[str, KafkaCluster],
    node: str,
    key: bytes,
    value: bytes | None,
) -> None:
    """Write one wish, or with None that it has ended.

    Raises:
        TransportError: Kafka did not take it.
    """
    topic = TopicNames(topology.prefix).config()
    writer = kafka[topology.nodes[node].kafka].writer("operator")
    try:
        writer.produce(topic, value, key, 0)
        if writer.flush():
            raise TransportError(f"Kafka did not take the record for {topic}")
    finally:
        writer.close()
