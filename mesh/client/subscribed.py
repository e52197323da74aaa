"""What the clients of one node have subscribed, according to `mesh.<node>.clients`. Spec: K13."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mesh.core.endpoints import QueueRules, form_of, prevailing_form
from mesh.errors import OtherKindError, ProtocolError, SubjectError
from mesh.model.control import EndpointKind, Subscription
from mesh.model.names import fold
from mesh.model.topology import Topology
from mesh.transport.port import KafkaCluster, Record, TopicPartition
from mesh.transport.reading import read_range
from mesh.wire.keys import parse_subscription_key
from mesh.wire.subscriptions import decode_subscription


class ClientsLog:
    """A `clients` topic; each look shows what has come since the previous one.

    Attributes:
        topic_id: Of the topic that is read; none before the first look.
        passed: The offset to be read next.

    Args:
        kafka: Kafka cluster of the node.
        topic: Its `clients` topic.
    """

    def __init__(self, kafka: KafkaCluster, topic: str) -> None:
        self.topic_id = b""
        self.passed = 0
        self._kafka = kafka
        self._place = TopicPartition(topic, 0)
        self._end = 0

    def look(self) -> int | None:
        """Check how far it goes; return the offset from which the log is a new one to read, if so.

        That is 0 if the topic was recreated, and its present end if it has lost its former end;
        None if it simply goes on.

        Raises:
            TransportError: The Kafka cluster does not answer.
        """
        admin, topic = self._kafka.admin(), self._place.topic
        known = admin.describe([topic]).get(topic)
        self._end = admin.stable_ends([self._place]).get(self._place, 0)
        topic_id = b"" if known is None else known.topic_id
        if topic_id == self.topic_id and self._end >= self.passed:
            return None
        another = self._end if topic_id == self.topic_id else 0
        self.topic_id, self.passed = topic_id, 0
        return another

    def records(self) -> Iterator[Record]:
        """Yield what has come, as of the last look.

        Raises:
            TransportError: The Kafka cluster does not answer.
        """
        begins, ends = {self._place: self.passed}, {self._place: self._end}
        for record in read_range(self._kafka, begins, ends, name="subscribed"):
            self.passed = record.offset() + 1
            yield record
        self.passed = max(self.passed, self._end)

    def wrote(self, offset: int) -> None:
        """Skip a record of one's own at the next position to read."""
        self.passed += offset == self.passed


class Subscriptions:
    """The content of a `clients` topic; each refresh reads only what came since the last one.

    Args:
        kafka: Kafka cluster of the node.
        topic: Its `clients` topic.
    """

    def __init__(self, kafka: KafkaCluster, topic: str) -> None:
        self._log = ClientsLog(kafka, topic)
        self._found: dict[tuple[str, str], Subscription] = {}

    @property
    def topic_id(self) -> bytes:
        """Of the topic, as of the last refresh."""
        return self._log.topic_id

    def refresh(self) -> Mapping[tuple[str, str], Subscription]:
        """Return every subscription by (endpoint, filter), in the order written.

        Raises:
            TransportError: The Kafka cluster does not answer.
        """
        if self._log.look() is not None:
            self._found = {}
        for record in self._log.records():
            value = record.value()
            try:
                key = parse_subscription_key(record.key() or b"")
                self._found.pop(key, None)
                if value is not None:
                    self._found[key] = decode_subscription(value)
            except ProtocolError:
                continue  # the node itself counts and logs what is unreadable
        return self._found

    def check(
        self, topology: Topology, node: str, key: tuple[str, str], asked: Subscription
    ) -> None:
        """Refuse what the node would: by these, or by the policy in force of a queue.

        Args:
            topology: In force.
            node: The node.
            key: Endpoint and filter.
            asked: What is to be subscribed.

        Raises:
            SubjectError: An endpoint already has this name with other capitals, or the queue has
                another policy, or one that does not go with `noexport`.
            OtherKindError: The endpoint already has another kind or class.
            TransportError: The Kafka cluster does not answer.

        Spec: K13, DESIGN 3.
        """
        endpoint, _ = key
        found = self.refresh()
        known = [form_of(one) for (name, _), one in found.items() if name == endpoint]
        alike = next((name for name, _ in found if fold(name) == fold(endpoint)), endpoint)
        if not known and alike != endpoint:
            raise SubjectError(
                f"{endpoint} at {node} would be a second {alike}: names are the same whatever "
                f"their case; nothing was changed; subscribe {alike}, or name another endpoint"
            )
        if not known or form_of(asked) == prevailing_form(known):
            self._check_queue(QueueRules.at(node, topology), key, asked)
            return
        raise OtherKindError(
            f"{endpoint} at {node} is a {prevailing_form(known)} already and cannot be a "
            f"{form_of(asked)} too, nothing was changed: name another endpoint, or end what it is "
            "by `mesh unsubscribe`"
        )

    def _check_queue(self, rules: QueueRules, key: tuple[str, str], asked: Subscription) -> None:
        if asked.kind is not EndpointKind.QUEUE:
            return
        here = {
            one: said
            for one, said in self._found.items()
            if one[0] == key[0] and form_of(said) == form_of(asked)
        }
        policies = rules.policies({**here, key: asked})
        if (fault := rules.refusal(key[0], asked, policies)) is not None:
            raise SubjectError(fault)
