"""What operators want of a node: records on `mesh.config` of the node's own Kafka cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mesh.errors import TransportUnavailableError
from mesh.model.control import Pause
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.port import KafkaCluster
from mesh.wire.control import decode_pause
from mesh.wire.keys import DisableKey, PauseKey, SubjectPauseKey


@dataclass(slots=True)
class OperatorRecords:
    """What operators want of one node.

    Attributes:
        pauses: Links, or partitions of them, that it does not read.
        disabled: Neighbours whose link is disabled.
        subject_pauses: Filters of what it does not take of its clients.
    """

    pauses: dict[PauseKey, Pause] = field(default_factory=dict)
    disabled: dict[str, Pause] = field(default_factory=dict)
    subject_pauses: dict[str, Pause] = field(default_factory=dict)

    def take_operator_record(
        self, key: PauseKey | DisableKey | SubjectPauseKey, value: bytes | None
    ) -> None:
        """Take a record about the node; without a value it wants this no longer.

        Raises:
            ProtocolError: The value cannot be read; what stood there before has ended all the same.
        """
        match key:
            case PauseKey():
                self.pauses.pop(key, None)
                if value is not None:
                    self.pauses[key] = decode_pause(value)
            case DisableKey(_, neighbour):
                self.disabled.pop(neighbour, None)
                if value is not None:
                    self.disabled[neighbour] = decode_pause(value)
            case SubjectPauseKey(_, filter_):
                self.subject_pauses.pop(filter_, None)
                if value is not None:
                    self.subject_pauses[filter_] = decode_pause(value)


def write_operator_record(
    topology: Topology,
    kafka: Mapping[str, KafkaCluster],
    node: str,
    key: bytes,
    value: bytes | None,
) -> None:
    """Write what an operator wants, or with None that it has ended.

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
            message = f"topic {topic} did not take the record; try again when its brokers answer"
            raise TransportUnavailableError(message)
    finally:
        writer.close()
