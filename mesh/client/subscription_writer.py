"""Subscriptions of one client: written, read back for their version, renewed. Spec: K13."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mesh.client.in_flight import InFlight
from mesh.client.lease_records import ClientsRecords
from mesh.client.leases import Leases
from mesh.client.outbound import encoded
from mesh.client.subscribed import Subscriptions
from mesh.errors import TransportError, TransportUnavailableError
from mesh.model.control import Subscription
from mesh.model.topology import Topology
from mesh.transport.port import KafkaCluster, TopicPartition
from mesh.wire.keys import subscription_key

POLL_S = 0.1
READ_BACK_S = 30.0
"""How long a subscription that was just written may take to appear in its topic."""


class SubscriptionWriter:
    """Writes a client's records on `clients`. One thread uses it; renewals may have another.

    Args:
        kafka: Kafka cluster of the node.
        topic: Its `clients` topic.
        in_flight: Writes records, after the messages that were published before.
        now_ms, pause: Clock, and how to let time pass.
    """

    def __init__(
        self,
        kafka: KafkaCluster,
        topic: str,
        in_flight: InFlight,
        now_ms: Callable[[], int],
        pause: Callable[[float], None],
    ) -> None:
        self._kafka = kafka
        self._topic = topic
        self._in_flight = in_flight
        self._now_ms = now_ms
        self._pause = pause
        self._subscriptions = Subscriptions(kafka, topic)
        self._renewed = ClientsRecords(kafka, topic)
        self.leases = Leases(self._renewed, now_ms)

    def subscribe(
        self, topology: Topology, node: str, endpoint: str, filter_: str, asked: Subscription
    ) -> int:
        """Write a subscription, and renew it if it has a lease; return its version.

        Args:
            topology: In force: it declares queues.
            node: Where the subscription is written.
            endpoint: Whose subscription it is.
            filter_: What it wants.
            asked: What is subscribed.

        Raises:
            SubjectError: No node would accept it, or not this one.
            OtherKindError: The endpoint already has another kind or class.
            TransportError: Kafka did not accept it; earlier renewals go on.
        """
        value = encoded(asked)
        self._subscriptions.check(topology, node, (endpoint, filter_), asked)
        key = subscription_key(endpoint, filter_)
        # A renewal meanwhile would be written after the newer record.
        before = self.leases.drop(key)
        try:
            version = self._write(key, value)
        except TransportError:
            self.leases.put_back(key, before)
            raise
        if asked.lease_s is not None:
            self._renewed.begin(self._subscriptions.topic_id, version)
            self.leases.keep(key, value, asked.lease_s, version)
        return version

    def unsubscribe(self, endpoint: str, filter_: str) -> int:
        """End a subscription, if there is one; return the version of its end."""
        key = subscription_key(endpoint, filter_)
        self.leases.drop(key)
        return self._write(key, None)

    def subscribed(self) -> Mapping[tuple[str, str], Subscription]:
        """Return every subscription at the node by (endpoint, filter), in the order written."""
        return dict(self._subscriptions.refresh())

    def _write(self, key: bytes, value: bytes | None) -> int:
        place = TopicPartition(self._topic, 0)
        begin = self._kafka.admin().ends([place]).get(place)
        if begin is None:
            raise TransportUnavailableError(
                f"topic {self._topic} is gone; its node recreates it while it runs: try again"
            )
        self._in_flight.write(self._topic, value, key)
        return self._read_back(place, begin, key, value)

    def _read_back(self, place: TopicPartition, begin: int, key: bytes, value: bytes | None) -> int:
        """Return the offset of the record just written: its version. Spec: K13."""
        reader = self._kafka.reader("version")
        try:
            reader.assign({place: begin})
            deadline = self._now_ms() + int(READ_BACK_S * 1000)
            while self._now_ms() <= deadline:
                for record in reader.read(POLL_S, 100):
                    if (record.key(), record.value()) == (key, value):
                        return record.offset()
                self._pause(0)
        finally:
            reader.close()
        raise TransportUnavailableError(
            f"{place.topic}: the subscription was written but cannot be read back; look for a "
            "hanging transaction"
        )

    def close(self) -> None:
        """Stop renewals; leases are no longer renewed and run out."""
        self._renewed.close()
