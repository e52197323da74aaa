"""Deletes topics, which no node ever does: for operators who allow it, and drills of the lab."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from mesh.transport.kafka.admin import REQUEST_S
from mesh.transport.kafka.faults import Site, error_of, transport_error
from mesh.transport.kafka.settings import admin_settings


def delete_topics(name: str, options: Mapping[str, str], topics: Sequence[str]) -> None:
    """Delete topics with their records; returns when the controller has taken note.

    Args:
        name: Of the Kafka cluster, for error texts.
        options: librdkafka options, `bootstrap.servers` among them.
        topics: What to delete.

    Raises:
        TransportError: It was not done.
    """
    site = Site(name, options.get("bootstrap.servers", "?"))
    admin = AdminClient(admin_settings(options, "mesh-removal"))  # type: ignore[arg-type] # it takes a logger too
    for topic, done in admin.delete_topics(list(topics), request_timeout=REQUEST_S).items():
        try:
            done.result(2 * REQUEST_S)
        except KafkaException as exc:
            raise transport_error(site, f"delete topic {topic}", error_of(exc)) from exc
