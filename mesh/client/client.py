"""Publish, subscribe and receive at one node of a mesh. Spec: K7, K8, K13, K24."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Self, TypeVar
from weakref import WeakSet

from mesh.client.awaited import deadline_of
from mesh.client.channels import ChannelReader
from mesh.client.consuming import QueueConsumer
from mesh.client.deliveries import Deliveries
from mesh.client.leases import Leases
from mesh.client.operators import OperatorsWord
from mesh.client.outbound import check_names, encoded, outgoing, word_of
from mesh.client.pressure import Pressure
from mesh.client.published import Published
from mesh.client.refusals import refusal
from mesh.client.roles import Roles
from mesh.client.subscribed import Subscriptions
from mesh.config.nearest import check_node
from mesh.config.published import published_topology
from mesh.core.direct_only import direct_only_zone_of
from mesh.errors import (
    ClosedError,
    ConfigError,
    LaggardsError,
    NotPublishedError,
    SubjectError,
    TransportDeniedError,
    TransportError,
    TransportUnavailableError,
)
from mesh.model.control import EndpointKind, Subscription
from mesh.model.frames import MessageClass
from mesh.model.headers import SUBJECT_HEADER
from mesh.model.names import name_fault
from mesh.model.queues import QueuePolicy
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.port import Headers, KafkaCluster, TopicPartition, Writer
from mesh.view.connection import ClosedKafka, open_around
from mesh.view.laggards import open_links
from mesh.view.mesh_view import MeshView
from mesh.wire.keys import subscription_key

IN_FLIGHT_BYTES_MAX = 16 << 20
"""Handed over and not acknowledged; more waits, because a full queue would lose records."""

REFUSED_MAX = 1_000
"""Messages that were not taken and that one error names at most; its text has `NAMED_MAX`."""
NAMED_MAX = 3

_UNKNOWN_WAY = "a change of the topology brought it, and this client does not know the way there"

S = TypeVar("S", Deliveries, QueueConsumer, ChannelReader)

POLL_S = 0.1
READ_BACK_S = 30.0
"""How long a subscription that was just written may take to be seen in its topic."""


def _close_all_the_same(stream: Deliveries | QueueConsumer | ChannelReader) -> None:
    with suppress(TransportError):  # what a queue was not told is handed out once more
        stream.close()


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def connect(topology: Topology, node: str) -> MeshClient:
    """Return a client of one node on real Kafka; nothing is sent yet.

    Args:
        topology: The mesh; the node's Kafka cluster has an address.
        node: The node to publish and subscribe at.

    Raises:
        ConfigError: No node of that name, its Kafka cluster has no address, or a secret that it
            wants cannot be had. Those of other Kafka clusters need not be had here.
    """
    check_node(topology, node, "node")
    client = MeshClient(topology, node, open_around(topology, node))
    client.begin_renewing()
    return client


class MeshClient:
    """A client of one node, on the ports: real Kafka or memory. One thread uses it.

    It goes by the topology in force as soon as it has heard of it; the one it is made with says
    how to reach Kafka.

    Args:
        topology: The mesh.
        node: The node next to this client.
        kafka: Every Kafka cluster of the mesh by name; `close` closes them.
        now_ms: Monotonic clock.
        pause: Lets time pass, in seconds.
    """

    def __init__(
        self,
        topology: Topology,
        node: str,
        kafka: Mapping[str, KafkaCluster],
        *,
        now_ms: Callable[[], int] = _now_ms,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        check_node(topology, node, "node")
        self._topology = topology
        self._node = node
        self._all = kafka
        self._kafka = kafka[topology.nodes[node].kafka]
        self._names = TopicNames(topology.prefix)
        self._now_ms = now_ms
        self._pause = pause
        self._pressure = Pressure(topology, node, self._kafka, now_ms)
        self._operators = OperatorsWord(topology, node, self._kafka, now_ms)
        self._followed = ""
        self._process = os.getpid()
        self._is_closed = False
        self._leases = Leases(self._write_again, now_ms)
        self._subscriptions = Subscriptions(self._kafka, self._names.clients(node))
        self._lease_writer: Writer | None = None
        self._writer: Writer | None = None
        self._view: MeshView | None = None
        self._checked: dict[str, str] = {}
        self._streams: list[Deliveries | QueueConsumer | ChannelReader] = []
        self._applications: WeakSet[Roles] = WeakSet()  # whoever lets one go has its lease run out
        self._handed_over = 0
        self._in_flight_bytes = 0
        self._failed = 0
        self._pending: list[Published] = []
        self._refused: list[tuple[str, str]] = []

    @property
    def topology(self) -> Topology:
        """The topology by which this client works: what is in force, once it was heard."""
        self._follow()
        return self._topology

    def _follow(self) -> None:
        """Go by the topology in force, if it is another than before."""
        self._check_usable()
        self._operators.look()
        text = self._operators.in_force
        if text in ("", self._followed):
            return
        self._followed = text
        try:
            found = published_topology(text)
        except ConfigError:
            return  # a newer version wrote it; what is known of the mesh still holds
        if self._node not in found.nodes or found.prefix != self._topology.prefix:
            return
        known = self._topology.kafka
        kafka = {name: known.get(name, one) for name, one in found.kafka.items()}
        self._topology = replace(found, kafka=kafka)
        self._all = {**dict.fromkeys(kafka, ClosedKafka(_UNKNOWN_WAY)), **self._all}
        self._pressure.close()
        self._pressure = Pressure(self._topology, self._node, self._kafka, self._now_ms)
        if self._view is not None:
            self._view.close()
            self._view = None

    def _check_usable(self) -> None:
        """Refuse what a client that was closed or forked could only lose.

        Raises:
            ClosedError: It was.
        """
        if self._is_closed:
            raise ClosedError("this client is closed; connect again")
        if os.getpid() != self._process:
            raise ClosedError("this client was made before this process was forked; connect in it")

    # -- publishing -----------------------------------------------------------------------

    @property
    def direct_only_zone(self) -> str | None:
        """The cluster over whose links nothing guaranteed leaves the node, if any. Spec: DMR-11."""
        return direct_only_zone_of(self.topology, self._node)

    def publish(
        self,
        subject: str,
        payload: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        message_class: MessageClass = MessageClass.GUARANTEED,
    ) -> Published:
        """Hand over one message; `flush` settles whether it was accepted.

        Args:
            subject: Mesh address.
            payload: None is a tombstone.
            key: Messages of one key keep their order.
            headers: The client's own; those of the mesh are refused.
            message_class: Guaranteed or direct.

        Returns:
            The message, which knows its place and identity once Kafka has acknowledged it, or why
            it was not taken.

        Raises:
            SubjectError: The subject, a header or the size is not allowed; nothing was sent.
            BackpressureError: The node takes no guaranteed messages just now; nothing was sent.
            PausedError: It takes nothing of this subject just now; nothing was sent.
            TransportError: Kafka does not answer, or the node's topics do not exist.
            ClosedError: This client was closed, or made before a fork; so with all it can do.

        Spec: K6, K7, R14.
        """
        self._follow()
        message_class = word_of(MessageClass, "message_class", message_class)
        given = outgoing(self._topology, subject, payload, key, headers)
        if message_class is MessageClass.GUARANTEED:
            self._pressure.check()
        topic = self._names.ingress(self._node, message_class)
        topic_id = self._require(topic)
        self._operators.check(subject)
        if self._in_flight_bytes + given.size > IN_FLIGHT_BYTES_MAX:
            self._drain()
        sent = [*given.headers, (SUBJECT_HEADER, subject.encode())]
        published = Published(subject, message_class, topic, topic_id)
        self._open_writer().produce(
            topic, given.payload, given.key, headers=sent, on_delivery=published.settle
        )
        self._pending.append(published)
        self._in_flight_bytes += given.size + 100
        self._handed_over += 1
        return published

    def flush(self) -> int:
        """Wait until everything published so far is accepted; return how many messages that were.

        Raises:
            NotPublishedError: Some were not; `refused` of it names them, and says why.
        """
        self._check_usable()
        self._drain()
        total, self._handed_over = self._handed_over, 0
        failed, self._failed = self._failed, 0
        refused, self._refused = self._refused, []
        if failed:
            kafka = self._topology.nodes[self._node].kafka
            named = "; ".join(f"{subject}: {why}" for subject, why in refused[:NAMED_MAX])
            more = f"; and {failed - NAMED_MAX} more" if failed > NAMED_MAX else ""
            raise NotPublishedError(
                f"{failed} of {total} messages were not acknowledged by Kafka cluster {kafka}; "
                f"publish them again ({named}{more})",
                failed=failed,
                refused=refused,
            )
        return total

    def _drain(self) -> None:
        if self._writer is not None:
            self._writer.flush()
        self._in_flight_bytes = 0
        pending, self._pending = self._pending, []
        for one in pending:
            if not one.is_accepted:
                self._failed += 1
                one.error = one.error or "no broker has acknowledged it in time"
                if len(self._refused) < REFUSED_MAX:
                    self._refused.append((one.subject, one.error))

    def _open_writer(self) -> Writer:
        if self._writer is None:
            self._writer = self._kafka.writer("publish", tells=True)
        return self._writer

    def _require(self, topic: str) -> str:
        """Return the id of a topic; refuse to write to one that is not: records would be lost."""
        self._check_usable()
        if topic in self._checked:
            return self._checked[topic]
        known = self._kafka.admin().describe([topic])
        if topic not in known:
            kafka = self._topology.nodes[self._node].kafka
            raise TransportDeniedError(
                f"topic {topic} does not exist on Kafka cluster {kafka}: start node {self._node}, "
                "or `mesh up`",
                topics=[topic],
            )
        self._checked[topic] = known[topic].topic_id.hex()
        return self._checked[topic]

    # -- subscribing ----------------------------------------------------------------------

    def subscribe(
        self,
        endpoint: str,
        filter_: str,
        *,
        message_class: MessageClass = MessageClass.GUARANTEED,
        lease_s: int | None = None,
        noexport: bool = False,
        kind: EndpointKind = EndpointKind.CHANNEL,
        policy: QueuePolicy | None = None,
    ) -> int:
        """Subscribe an endpoint to a filter; return the version, to be given to `wait`.

        Args:
            endpoint: Name of the endpoint; it is made if there is none.
            filter_: What it wants.
            message_class: Of the endpoint: whether messages wait for it while the node is down.
            lease_s: Seconds after which the subscription ends unless it is renewed, as this client
                does until it is closed.
            noexport: Attract nothing from other nodes; get what comes to this one.
            kind: Of the endpoint.
            policy: Of a queue; as it is declared, or `every`, if left out.

        Raises:
            SubjectError: The endpoint, the filter or the lease is not allowed, or a policy is
                asked for a channel.
            OtherKindError: The endpoint is of another kind or class already.
            TransportError: Kafka did not take it.

        Spec: K13, DMR-12.
        """
        check_names(endpoint, filter_)
        subscription = Subscription(
            word_of(EndpointKind, "kind", kind),
            word_of(MessageClass, "message_class", message_class),
            None if policy is None else word_of(QueuePolicy, "policy", policy),
            lease_s,
            noexport,
        )
        value = encoded(subscription)
        self._require(self._names.clients(self._node))
        self._subscriptions.check(self._node, endpoint, subscription)
        key = subscription_key(endpoint, filter_)
        # What is renewed meanwhile would stand in the topic after the newer word.
        before = self._leases.drop(key)
        try:
            version = self._tell(key, value)
        except TransportError:
            self._leases.put_back(key, before)
            raise
        if lease_s is not None:
            self._leases.keep(key, value, lease_s)
        return version

    def begin_renewing(self) -> None:
        """Renew leases in a thread of its own until `close`; `connect` has done that."""
        self._leases.begin()

    def renew_leases(self) -> None:
        """Renew the leases of which a third has passed; for who lets no thread do that."""
        self._check_usable()
        self._leases.renew()

    def _write_again(self, key: bytes, value: bytes) -> None:
        if self._lease_writer is None:
            self._lease_writer = self._kafka.writer("lease")
        topic = self._names.clients(self._node)
        self._lease_writer.produce(topic, value, key, 0)
        if self._lease_writer.flush():
            raise TransportUnavailableError(f"topic {topic} did not take the subscription")

    def unsubscribe(self, endpoint: str, filter_: str) -> int:
        """End a subscription, if there is one; return the version, to be given to `wait`.

        Raises:
            SubjectError, TransportError: As for `subscribe`.
        """
        check_names(endpoint, filter_)
        key = subscription_key(endpoint, filter_)
        self._leases.drop(key)
        return self._tell(key, None)

    def subscribed(self) -> Mapping[tuple[str, str], Subscription]:
        """Return every subscription at the node by (endpoint, filter), in the order written."""
        self._check_usable()
        return dict(self._subscriptions.refresh())

    def _tell(self, key: bytes, value: bytes | None) -> int:
        topic = self._names.clients(self._node)
        self._require(topic)
        place = TopicPartition(topic, 0)
        begin = self._kafka.admin().ends([place])[place]
        self._drain()
        writer = self._open_writer()
        writer.produce(topic, value, key, 0)
        if writer.flush():
            raise TransportUnavailableError(f"topic {topic} did not take the subscription")
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

    def wait(self, version: int, timeout_s: float = 60.0) -> Sequence[tuple[str, str]]:
        """Wait until every live reachable node has acknowledged a version.

        Returns:
            Links (from, to) over which it is not acknowledged because their end is down or
            cannot be reached: there it takes effect when it is back.

        Raises:
            LaggardsError: Not in time; names the links that are still open.

        Spec: K24.
        """
        self._follow()
        deadline = deadline_of(self._now_ms(), timeout_s)
        view, topic = self._open_view(), self._names.clients(self._node)
        described = self._kafka.admin().describe([topic]).get(topic)
        topic_id = None if described is None else described.topic_id
        while True:
            view.refresh()
            late, excused = open_links(view, self._node, version, topic_id)
            if late is None:
                return excused
            if self._now_ms() >= deadline:
                links = ", ".join(f"{source}->{target}" for source, target in late)
                fault = view.unreachable.get(self._topology.nodes[self._node].kafka)
                raise LaggardsError(
                    f"not known everywhere within {timeout_s:g} s: "
                    + (
                        fault
                        or (f"open links {links}" if late else f"{self._node} has not read it")
                    ),
                    open_links=late,
                )
            self._pause(POLL_S)

    def refusal(self, endpoint: str, timeout_s: float = 10.0) -> str | None:
        """Return why the node refuses what a queue asked for, once `wait` has returned, or None."""
        self._check_usable()
        until_ms = deadline_of(self._now_ms(), timeout_s)
        view, pause = self._open_view(), self._pause
        return refusal(
            view, self._node, endpoint, until_ms=until_ms, now_ms=self._now_ms, pause=pause
        )

    def _open_view(self) -> MeshView:
        if self._view is None:
            self._view = MeshView(self._topology, self._all, self._now_ms, name="wait")
        return self._view

    # -- receiving ------------------------------------------------------------------------

    def deliveries(self, endpoint: str, *, from_beginning: bool = True) -> Deliveries:
        """Return the messages delivered to an endpoint of the node, committed ones only.

        Args:
            endpoint: Its name.
            from_beginning: Oldest first, or only what comes from now on.

        Raises:
            SubjectError: The name is not allowed.
        """
        self._check_usable()
        if (fault := name_fault(endpoint)) is not None:
            raise SubjectError(f"endpoint {fault}")
        stream = Deliveries(
            self._kafka,
            self._topology.prefix,
            self._node,
            endpoint,
            self._topology.nodes[self._node].partitions,
            from_beginning=from_beginning,
            now_ms=self._now_ms,
            pause=self._pause,
        )
        return self._kept(stream)

    def channel(self, endpoint: str, group: str) -> ChannelReader:
        """Read a channel of the node as a member of a group, which keeps its position.

        Who reads it again under the same group goes on where that was; several at once share it.

        Args:
            endpoint: Its name.
            group: Name of the consumer group in Kafka.

        Raises:
            SubjectError: The endpoint's name is not allowed, or the group has none.
        """
        reader = ChannelReader(
            self._kafka,
            self.topology,
            self._node,
            endpoint,
            group,
            now_ms=self._now_ms,
            pause=self._pause,
        )
        return self._kept(reader)

    def consume(self, queue: str, *, deliveries_max: int | None = None) -> QueueConsumer:
        """Join the consumers of a queue at the node.

        Args:
            queue: Its name.
            deliveries_max: How often a message is handed out before it becomes a dead letter;
                None for what `spec.queues` says, or else for as often as it takes.

        Raises:
            SubjectError: The name is not allowed.

        Spec: DESIGN 6.
        """
        consumer = QueueConsumer(
            self._kafka,
            self.topology,
            self._node,
            queue,
            deliveries_max=deliveries_max,
            now_ms=self._now_ms,
            pause=self._pause,
        )
        return self._kept(consumer)

    def _kept(self, stream: S) -> S:
        """Remember what is to be closed, and forget what was closed already."""
        self._streams = [*(one for one in self._streams if not one.is_closed), stream]
        return stream

    def roles(self, app: str, *, lease_s: float = 10.0, is_new: bool = True) -> Roles:
        """Return an application that takes roles and sends to roles; `with` opens it.

        Args:
            app: Its name; two of one name at one node are one application.
            lease_s: How long it lives without a word.
            is_new: End what an application of this name held before.

        Raises:
            SubjectError: The name or the lease is none.
        """
        self._check_usable()
        roles = Roles(
            self._kafka,
            self._topology,
            self._node,
            app,
            lease_s=lease_s,
            now_ms=self._now_ms,
            pause=self._pause,
            is_new=is_new,
            check_usable=self._check_usable,
        )
        self._applications.add(roles)
        return roles

    def close(self) -> None:
        """Release everything; messages that were not flushed may be lost.

        After a fork it is the other process that has what is to be released.
        """
        if self._is_closed:
            return
        self._is_closed = True
        if os.getpid() != self._process:
            return
        with ExitStack() as closing:  # the last first, and each of them whatever another raises
            for kafka in self._all.values():
                closing.callback(kafka.close)
            for one in (self._lease_writer, self._writer, self._view):
                if one is not None:
                    closing.callback(one.close)
            closing.callback(self._operators.close)
            closing.callback(self._pressure.close)
            for stream in self._streams:
                closing.callback(_close_all_the_same, stream)
            for application in self._applications:
                closing.callback(application.leave)
            closing.callback(self._leases.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()
