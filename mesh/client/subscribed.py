"""What the clients of one node have subscribed, as `mesh.<node>.clients` says. Spec: K13."""

from __future__ import annotations

from collections.abc import Mapping

from mesh.errors import OtherKindError, ProtocolError, SubjectError
from mesh.model.control import Subscription
from mesh.model.names import fold
from mesh.transport.port import KafkaCluster, TopicPartition
from mesh.transport.reading import read_logs
from mesh.wire.keys import parse_subscription_key
from mesh.wire.subscriptions import decode_subscription


class Subscriptions:
    """What stands on a `clients` topic; each refresh reads only what came since the last one.

    Args:
        kafka: Kafka cluster of the node.
        topic: Its `clients` topic.
    """

    def __init__(self, kafka: KafkaCluster, topic: str) -> None:
        self._kafka = kafka
        self._place = TopicPartition(topic, 0)
        self._passed = 0
        self._found: dict[tuple[str, str], Subscription] = {}

    def refresh(self) -> Mapping[tuple[str, str], Subscription]:
        """Return every subscription by (endpoint, filter), in the order written.

        Raises:
            TransportError: The Kafka cluster does not answer.
        """
        end = self._kafka.admin().ends([self._place]).get(self._place, 0)
        if end < self._passed:  # the topic was recreated
            self._passed, self._found = 0, {}
        begins = {self._place: self._passed}
        for record in read_logs(self._kafka, [self._place], passed=begins, name="subscribed"):
            self._passed = record.offset() + 1
            value = record.value()
            try:
                key = parse_subscription_key(record.key() or b"")
                self._found.pop(key, None)
                if value is not None:
                    self._found[key] = decode_subscription(value)
            except ProtocolError:
                continue  # the node itself counts and logs what it cannot read
        return self._found

    def check(self, node: str, endpoint: str, asked: Subscription) -> None:
        """Refuse a second name of an endpoint, and another kind or class of it.

        Raises:
            SubjectError: An endpoint has this name already, written with other capitals.
            OtherKindError: The endpoint is something else already.
            TransportError: The Kafka cluster does not answer.

        Spec: K13, DESIGN 3.
        """
        found = self.refresh()
        known = next((one for (name, _), one in found.items() if name == endpoint), None)
        alike = next((name for name, _ in found if fold(name) == fold(endpoint)), endpoint)
        if known is None and alike != endpoint:
            raise SubjectError(
                f"{endpoint} at {node} would be a second {alike}: names are the same whatever "
                f"their case; nothing was changed; subscribe {alike}, or name another endpoint"
            )
        if known is None or (known.kind, known.message_class) == (asked.kind, asked.message_class):
            return
        raise OtherKindError(
            f"{endpoint} at {node} is a {known.message_class} {known.kind} already and cannot be a "
            f"{asked.message_class} {asked.kind} too, nothing was changed: name another endpoint, "
            "or end what it is by `mesh unsubscribe`"
        )
