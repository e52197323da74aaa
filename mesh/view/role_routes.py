"""What nodes know of the ways to roles, according to `mesh.<node>.routes`. Spec: tree_layer 8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mesh.errors import ProtocolError
from mesh.model.tree_apps import RoutesTold
from mesh.transport.port import KafkaCluster, TopicPartition
from mesh.transport.reading import read_logs
from mesh.wire.tree_events import decode_event


@dataclass(frozen=True, slots=True)
class StandingRoutes:
    """A node's report on one role.

    Attributes:
        told: The routes, their ages as of then.
        epoch: The node's epoch when it reported this.
        told_ms: When that was, by the broker's clock.
    """

    told: RoutesTold
    epoch: int
    told_ms: int


def role_routes(
    kafka: KafkaCluster, topics: Sequence[str]
) -> Mapping[str, Sequence[StandingRoutes]]:
    """Return the contents of `routes` topics, by topic; those that do not exist are left out.

    Raises:
        TransportError: The Kafka cluster does not answer.
    """
    places = [TopicPartition(topic, 0) for topic in topics]
    found: dict[str, dict[Any, StandingRoutes]] = {
        place.topic: {} for place in kafka.admin().starts(places)
    }
    for record in read_logs(kafka, places, name="routes"):
        standing = found.setdefault(record.topic(), {})
        standing.pop(record.key(), None)
        if (value := record.value()) is None:
            continue
        try:
            read = decode_event("", value)
        except ProtocolError:
            continue  # only the node itself counts here
        if isinstance(read.event, RoutesTold):
            told_ms = record.timestamp()[1]
            standing[record.key()] = StandingRoutes(read.event, read.epoch, told_ms)
    return {topic: list(standing.values()) for topic, standing in found.items()}
