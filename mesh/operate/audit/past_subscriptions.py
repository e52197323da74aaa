"""Subscriptions that held at a moment and have ended since, as the auditor wrote them.

A `clients` topic is compacted: it holds nothing about what ended long ago.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mesh.model.control import EndpointKind, Subscription
from mesh.model.frames import MessageClass
from mesh.model.topology import Topology
from mesh.operate.audit.entries import Entry, entry_of
from mesh.operate.interest.history import HeldSubscription
from mesh.transport.port import KafkaCluster, TopicPartition
from mesh.transport.reading import read_range

TABLE = "subscriptions"
CLOCKS_MS = 60_000
"""How far the clocks of two Kafka clusters may be apart."""


def ended_since(
    topology: Topology, kafka: KafkaCluster, at_ms: int
) -> Mapping[str, Sequence[HeldSubscription]]:
    """Return, by node, what was in force at a moment and has ended since then.

    Args:
        topology: The mesh.
        kafka: Where its auditor writes. What ended after the moment was written after it.
        at_ms: The moment, ms since 1970.

    Raises:
        TransportError: The Kafka cluster does not answer.
    """
    place = TopicPartition(topology.names.audit(TABLE), 0)
    admin = kafka.admin()
    begins, ends = admin.since([place], at_ms - CLOCKS_MS), admin.stable_ends([place])
    found: dict[tuple[str, str], HeldSubscription] = {}
    for record in read_range(kafka, begins, ends, name="past"):
        entry = entry_of(TABLE, record.value() or b"")
        if entry is not None and entry["from_ms"] <= at_ms < entry["to_ms"]:
            node, _, endpoint = entry["endpoint"].partition("/")
            held = _held(endpoint, entry)
            if held is not None:
                found[node, f"{endpoint} {held.filter}"] = held
    by_node: dict[str, list[HeldSubscription]] = {}
    for (node, _), held in found.items():
        by_node.setdefault(node, []).append(held)
    return by_node


def _held(endpoint: str, entry: Entry) -> HeldSubscription | None:
    """Return what was wanted; None for an unknown word."""
    try:
        subscription = Subscription(
            EndpointKind(entry["kind"]),
            MessageClass(entry["class"]),
            noexport=bool(entry.get("noexport")),
        )
    except ValueError:
        return None
    return HeldSubscription(
        endpoint=endpoint,
        filter=entry["filter"],
        subscription=subscription,
        since_ms=int(entry["from_ms"]),
    )
