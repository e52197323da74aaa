"""Different names for one Kafka cluster. Spec: K4, EMS-16."""

from __future__ import annotations

from collections.abc import Mapping

from mesh.errors import StartError, TransportUnavailableError
from mesh.transport.port import KafkaCluster


def refuse_aliases(kafka: Mapping[str, KafkaCluster]) -> None:
    """Make sure that these names stand for different Kafka clusters. Spec: K4, EMS-16.

    Identity is the `cluster.id` that the brokers report, never a name or an address. One that
    does not answer is left out: its users report that.

    Raises:
        StartError: Two names are one Kafka cluster.
    """
    seen: dict[str, str] = {}
    for name, cluster in kafka.items():
        try:
            identity = cluster.admin().cluster_id()
        except TransportUnavailableError:
            continue
        if identity in seen:
            raise StartError(
                f"kafka {seen[identity]} and {name} are one Kafka cluster ({identity}): "
                "give each its own, or use one name for both"
            )
        seen[identity] = name
