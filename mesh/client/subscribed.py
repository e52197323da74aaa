"""What the clients of one node have subscribed, as `mesh.<node>.clients` says. Spec: K13."""

from __future__ import annotations

from mesh.codec.keys import parse_subscription_key
from mesh.codec.subscriptions import decode_subscription
from mesh.errors import ProtocolError
from mesh.model.control import Subscription
from mesh.transport.port import KafkaCluster, TopicPartition
from mesh.transport.reading import read_logs


def subscriptions_in(kafka: KafkaCluster, topic: str) -> dict[tuple[str, str], Subscription]:
    """Return what a `clients` topic says, by (endpoint, filter), in the order written.

    Raises:
        TransportError: The Kafka cluster does not answer.
    """
    place = TopicPartition(topic, 0)
    found: dict[tuple[str, str], Subscription] = {}
    for record in read_logs(kafka, [place], name="subscribed"):
        value = record.value()
        try:
            key = parse_subscription_key(record.key() or b"")
            found.pop(key, None)
            if value is not None:
                found[key] = decode_subscription(value)
        except ProtocolError:
            continue  # the node itself counts and logs what it cannot read
    return found
