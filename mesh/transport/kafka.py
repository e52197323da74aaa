"""The only module that talks to Kafka."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from mesh.errors import TransportUnavailableError


def cluster_id(
    bootstrap_servers: str, timeout_s: float, options: Mapping[str, str] | None = None
) -> str:
    """Ask a Kafka cluster for its identity, which is also the cheapest sign that it serves.

    Args:
        bootstrap_servers: ``host:port``, several separated by commas.
        timeout_s: How long to try, in seconds.
        options: Further librdkafka options, for example security settings.

    Raises:
        TransportUnavailableError: No broker answered in time.

    Spec: K4
    """
    quick = {"reconnect.backoff.ms": "50", "reconnect.backoff.max.ms": "200", "log_level": "0"}
    admin = AdminClient({**quick, **(options or {}), "bootstrap.servers": bootstrap_servers})
    try:
        description = admin.describe_cluster(request_timeout=timeout_s).result(timeout_s + 1)
    except (KafkaException, TimeoutError) as error:
        raise TransportUnavailableError(
            f"no Kafka broker answers at {bootstrap_servers}"
        ) from error
    return str(description.cluster_id)
