"""Clients of a scenario: what they subscribed and published, as steps say. Spec: lab.md 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mesh.lab import steps
from mesh.lab.backend import Backend
from mesh.lab.faults import StepFailedError
from mesh.lab.steps import Detail
from mesh.lab.tally import MessageId, PublishedRecord, Tally
from mesh.model.control import EndpointKind, Subscription
from mesh.model.frames import MessageClass
from mesh.model.record_headers import SUBJECT_HEADER
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.port import TopicPartition, Writer
from mesh.wire.keys import subscription_key
from mesh.wire.subscriptions import encode_subscription


@dataclass(slots=True)
class ScenarioSubscription:
    """A subscription of the scenario, with the steps between which it must be served.

    Attributes:
        node, endpoint, filter_, message_class: Whose it is, and what for.
        settled_at: Step of the settle that followed, or -1.
        ended_at: Step of its unsubscribe, or None.
        noexport: Whether it attracts nothing, so that only messages of its node are owed to it.
        policy: What is wanted of a queue, empty if nothing is said; None of a channel.
        began_at: Step of its subscribe.
    """

    node: str
    endpoint: str
    filter_: str
    message_class: MessageClass = MessageClass.GUARANTEED
    settled_at: int = -1
    ended_at: int | None = None
    noexport: bool = False
    policy: str | None = None
    began_at: int = -1

    @property
    def place(self) -> str:
        """The endpoint as results call it: `node/endpoint`."""
        return f"{self.node}/{self.endpoint}"


@dataclass(frozen=True, slots=True)
class Publication:
    """What one publish step wrote: offsets from `begins` below `ends` of one ingress topic."""

    step: int
    node: str
    topic_id: bytes
    begins: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]

    def has(self, identity: MessageId, message: PublishedRecord) -> bool:
        """Return whether a message is of this step."""
        begin, end = self.begins.get(message.place, 0), self.ends.get(message.place, -1)
        return identity[0] == self.topic_id and begin <= message.offset < end


@dataclass(slots=True)
class ScenarioClients:
    """Writes what clients of a mesh under test write, and remembers it.

    Attributes:
        topology: By which they find their nodes.
        backend: Where they are.
        tally: Counts what their endpoints get.
        subscriptions: Every subscription so far.
        publications: Every publish so far.
    """

    topology: Topology
    backend: Backend
    tally: Tally
    subscriptions: list[ScenarioSubscription] = field(default_factory=list)
    publications: list[Publication] = field(default_factory=list)
    _writers: dict[str, Writer] = field(default_factory=dict)
    _names: TopicNames = field(init=False)

    def __post_init__(self) -> None:
        """Know how topics are called."""
        self._names = self.topology.names

    def _writer(self, node: str) -> Writer:
        kafka = self.topology.nodes[node].kafka
        if kafka not in self._writers:
            self._writers[kafka] = self.backend.kafka[kafka].writer("mesh-lab-client")
        return self._writers[kafka]

    def _write(self, node: str, topic: str, key: bytes, value: bytes | None) -> None:
        writer = self._writer(node)
        writer.produce(topic, value, key, 0)
        if writer.flush():
            raise StepFailedError(f"Kafka did not take the record for {topic}")

    def forget_writers(self) -> None:
        """Reopen clients: what they count of a log that is recreated is refused for good."""
        for kafka in list(self._writers):
            self._writers.pop(kafka).close()

    def subscribe(self, number: int, step: steps.Subscribe) -> Detail:
        """Write a subscription."""
        kind, class_ = EndpointKind(step.kind), MessageClass(step.class_)
        asked = Subscription(kind, class_, step.policy, noexport=step.noexport)
        key = subscription_key(step.endpoint, step.filter)
        self._write(step.node, self._names.clients(step.node), key, encode_subscription(asked))
        self.tally.follow_endpoint(step.node, step.endpoint)
        policy = (step.policy or "") if step.kind == "queue" else None
        subscription = ScenarioSubscription(
            step.node,
            step.endpoint,
            step.filter,
            class_,
            noexport=step.noexport,
            policy=policy,
            began_at=number,
        )
        self._end_subscriptions(number, step, noexport=not step.noexport)
        self.subscriptions.append(subscription)
        return {}

    def _end_subscriptions(
        self,
        number: int,
        step: steps.Subscribe | steps.Unsubscribe,
        *,
        noexport: bool | None = None,
    ) -> None:
        """Record that a subscription ends with a step, if it is of that kind; None: of either."""
        for subscription in self.subscriptions:
            same = (subscription.node, subscription.endpoint, subscription.filter_)
            if same != (step.node, step.endpoint, step.filter) or subscription.ended_at is not None:
                continue
            if noexport in (None, subscription.noexport):
                subscription.ended_at = number

    def unsubscribe(self, number: int, step: steps.Unsubscribe) -> Detail:
        """Write the end of a subscription."""
        key = subscription_key(step.endpoint, step.filter)
        self._write(step.node, self._names.clients(step.node), key, None)
        self._end_subscriptions(number, step)
        return {}

    def publish(self, number: int, step: steps.Publish) -> Detail:
        """Write messages to an ingress.

        Args:
            number: Of the step in its scenario.
            step: What to write, where, and how much of it.

        Returns:
            What the result of the step tells.

        Raises:
            StepFailedError: Kafka did not acknowledge all of them.
        """
        message_class = MessageClass(step.class_)
        topic = self._names.ingress(step.node, message_class)
        kafka = self.topology.home_of(step.node, self.backend.kafka)
        places = TopicPartition.all_of(topic, self.topology.nodes[step.node].partitions)
        begins = kafka.admin().ends(places)
        writer = self._writer(step.node)
        key = None if step.key is None else step.key.encode()
        own = [(name, text.encode()) for name, text in step.headers.items()]
        headers = [(SUBJECT_HEADER, step.subject.encode()), *own]
        faults: dict[str, None] = {}

        def learn(_partition: int, _offset: int, fault: str) -> None:
            if fault:
                faults[fault] = None

        for index in range(step.count):
            payload = step.payload if step.count == 1 else f"{step.payload}-{index}"
            writer.produce(topic, payload.encode(), key, headers=headers, on_delivery=learn)
        failed = writer.flush()
        ends, topic_id = kafka.admin().ends(places), self.tally.topic_id(topic)
        self.publications.append(Publication(number, step.node, topic_id, begins, ends))
        if failed:
            why = "; ".join(faults) or "no broker answered in time"
            raise StepFailedError(f"{failed} of {step.count} messages were not acknowledged: {why}")
        return {"published": step.count}

    def subscriptions_of(self, place: str) -> Sequence[ScenarioSubscription]:
        """Return the subscriptions so far of an endpoint, `node/endpoint`."""
        return [one for one in self.subscriptions if one.place == place]

    def direct_endpoints(self) -> Sequence[str]:
        """Return the endpoints of the direct class so far, as `node/endpoint`."""
        direct = [one for one in self.subscriptions if one.message_class is MessageClass.DIRECT]
        return list(dict.fromkeys(one.place for one in direct))

    def note_settled(self, number: int) -> None:
        """Record that every subscription so far must be served from a step on."""
        for subscription in self.subscriptions:
            if subscription.settled_at < 0:
                subscription.settled_at = number

    def close(self) -> None:
        """Release what was opened."""
        for writer in self._writers.values():
            writer.close()
