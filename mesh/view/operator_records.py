"""What operators want of a node: a record on `mesh.config` of the node's own Kafka cluster."""

from __future__ import annotations

from collections.abc import Mapping

from mesh.errors import TransportError
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.port import KafkaCluster


def write_operator_record(
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
    write_config(kafka[topology.nodes[node].kafka], topology.prefix, key, value)


def write_config(cluster: KafkaCluster, prefix: str, key: bytes, value: bytes | None) -> None:
    """Write one record on `mesh.config` of a Kafka cluster.

    Raises:
        TransportError: Kafka did not take it.
    """
    topic = TopicNames(prefix).config()
    writer = cluster.writer("operator")
    try:
        writer.produce(topic, value, key, 0)
        if writer.flush():
            raise TransportError(f"Kafka did not take the record for {topic}")
    finally:
        writer.close()
