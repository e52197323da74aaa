"""The records of changes of the topology on `mesh.config` of every Kafka cluster. Spec: K28."""

from __future__ import annotations

from collections.abc import Mapping

from mesh.errors import TransportError
from mesh.model.control import Change
from mesh.model.topics import TopicNames
from mesh.transport.port import KafkaCluster
from mesh.wire.control import encode_change, encode_config
from mesh.wire.keys import change_key, config_key


def write_change(change: Change, kafka: Mapping[str, KafkaCluster], prefix: str) -> None:
    """Write a record to every Kafka cluster, even if some of them fail.

    Raises:
        TransportError: Some did not accept it; names them.
    """
    writers = ConfigWriters(kafka, prefix)
    try:
        writers.write_change(change)
    finally:
        writers.close()


class ConfigWriters:
    """Writes the same on `mesh.config` of several Kafka clusters.

    They stay open while a change is made: sources hold while a writer is being opened.
    """

    def __init__(self, kafka: Mapping[str, KafkaCluster], prefix: str) -> None:
        self._topic = TopicNames(prefix).config()
        self._writers = {name: cluster.writer("operator") for name, cluster in kafka.items()}

    def write_change(self, change: Change) -> None:
        """Write a stage of a change everywhere.

        Raises:
            TransportError: Some did not accept it; names them.
        """
        self._write(change_key(), encode_change(change), f"stage {change.stage} of the change")

    def put_in_force(self, change: Change) -> None:
        """Write the target of a change as the topology in force.

        Raises:
            TransportError: Some did not accept it; names them.
        """
        value = encode_config(change.number, change.topology, change.lineage)
        self._write(config_key(), value, f"version {change.number}")

    def _write(self, key: bytes, value: bytes, what: str) -> None:
        faults: dict[str, str] = {}
        for name, writer in self._writers.items():
            try:
                writer.produce(self._topic, value, key, 0)
            except TransportError as error:
                faults[name] = f"{name} ({error})"
        # All writes are under way before any is waited for: sources hold meanwhile.
        for name, writer in self._writers.items():
            try:
                if writer.flush():
                    faults.setdefault(name, name)
            except TransportError as error:
                faults.setdefault(name, f"{name} ({error})")
        if faults:
            clusters = ", ".join(fault for _, fault in sorted(faults.items()))
            raise TransportError(
                f"{what} did not reach Kafka cluster {clusters}; give the same command again"
            )

    def close(self) -> None:
        """Release the writers."""
        for writer in self._writers.values():
            writer.close()
