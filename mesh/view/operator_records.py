"""Writes what operators want of a node: records on `mesh.config` of its own Kafka cluster."""

from __future__ import annotations

from mesh.errors import TransportUnavailableError
from mesh.model.topics import TopicNames
from mesh.transport.port import KafkaCluster


def write_config(cluster: KafkaCluster, prefix: str, key: bytes, value: bytes | None) -> None:
    """Write what an operator wants, or with None that it has ended.

    Raises:
        TransportError: Kafka did not accept it.
    """
    topic = TopicNames(prefix).config()
    writer = cluster.writer("operator")
    try:
        writer.produce(topic, value, key, 0)
        if writer.flush():
            message = f"topic {topic} did not take the record; try again when its brokers answer"
            raise TransportUnavailableError(message)
    finally:
        writer.close()
