"""Publish, subscribe and receive at one node of a mesh. Spec: K7, K8, K13, K24."""

from __future__ import annotations

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
from mesh.client.in_flight import InFlight
from mesh.client.one_thread import OneThread, by_one_thread
from mesh.client.operators import OrdersForClients
from mesh.client.outbound import (
    check_flags,
    check_kind,
    check_name,
    check_names,
    check_number,
    check_text,
    enum_member,
    outgoing,
)
from mesh.client.pressure import Pressure
from mesh.client.published import Published
from mesh.client.refusals import refusal
from mesh.client.roles import Roles
from mesh.client.subscription_writer import SubscriptionWriter
from mesh.config.nearest import check_node
from mesh.config.published import published_topology
from mesh.core.direct_only import direct_only_zone_of
from mesh.errors import (
    ConfigError,
    LaggardsError,
    NodeGoneError,
    TransportDeniedError,
    TransportError,
    TransportUnavailableError,
)
from mesh.model.control import EndpointKind, Subscription
from mesh.model.frames import MessageClass
from mesh.model.queues import QueuePolicy
from mesh.model.topology import Topology
from mesh.transport import clock
from mesh.transport.port import Headers, KafkaCluster
from mesh.view.connection import ClosedKafka, open_around
from mesh.view.laggards import open_links
from mesh.view.mesh_view import MeshView

_UNKNOWN_WAY = "a change of the topology brought it, and this client does not know the way there"

S = TypeVar("S", Deliveries, QueueConsumer, ChannelReader)

POLL_S = 0.1

KNOWN_MS = 5_000
"""How long a topic is assumed to be the same one, if `flush` has had an answer meanwhile."""


def _close_all_the_same(stream: Deliveries | QueueConsumer | ChannelReader) -> None:
    with suppress(TransportError):  # acknowledgements that were not saved are handed out again
        stream.close()


def _check(topology: Topology, node: str) -> None:
    check_kind("topology", topology, Topology, "what `load_topology` returns")
    check_text("node", node)
    check_node(topology, node, "node")


def connect(topology: Topology, node: str) -> MeshClient:
    """Return a client of one node on real Kafka; nothing is sent yet.

    Args:
        topology: The mesh; the node's Kafka cluster has an address.
        node: The node to publish and subscribe at.

    Raises:
        ConfigError: There is no node of that name, its Kafka cluster has no address, or a secret
            for it is missing. Secrets of other Kafka clusters are not needed here.
        TypeError: The argument is not a topology (but, say, its path), or not a name.
    """
    _check(topology, node)
    client = MeshClient(topology, node, open_around(topology, node))
    client.begin_renewing()
    return client


class MeshClient:
    """A client of one node, on real Kafka or in memory. One thread at a time uses it.

    A call from a second thread meanwhile raises SharedError and does nothing; any thread may
    `close`, which waits for the one at work. What the client returns (readers, consumers,
    applications) may each have a thread of its own.

    It works by the topology in force as soon as it has read it; the one passed in says how to
    reach Kafka.

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
        now_ms: Callable[[], int] = clock.now_ms,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        _check(topology, node)
        self._topology = topology
        self._node = node
        self._all = kafka
        self._kafka = topology.home_of(node, kafka)
        self._names = topology.names
        self._now_ms = now_ms
        self._pause = pause
        self._pressure = Pressure(topology, node, self._kafka, now_ms)
        self._operators = OrdersForClients(topology, node, self._kafka, now_ms)
        self._followed = ""
        self._gone_by = 0  # number of the topology in force that lacks the node
        self._thread = OneThread()
        self._in_flight = InFlight(self._kafka, topology.nodes[node].kafka)
        self._subscriptions = SubscriptionWriter(
            self._kafka, self._names.clients(node), self._in_flight, now_ms, pause
        )
        self._view: MeshView | None = None
        self._topic_ids: dict[str, tuple[str, int]] = {}  # and when they were looked up
        self._answered_ms = now_ms()
        self._streams: list[Deliveries | QueueConsumer | ChannelReader] = []
        self._applications: WeakSet[Roles] = WeakSet()  # an unreferenced one ends with its lease

    @property
    @by_one_thread
    def topology(self) -> Topology:
        """The topology by which this client works: the one in force, once it has been read."""
        self._follow()
        return self._topology

    def _follow(self) -> None:
        """Switch to the topology in force, if it has changed."""
        self._thread.check()  # a waiting call that follows ends when somebody closes
        self._operators.look()
        text = self._operators.in_force
        if text in ("", self._followed):
            return
        self._followed = text
        try:
            found = published_topology(text)
        except ConfigError:
            return  # written by a newer version; what is known of the mesh still holds
        if found.prefix != self._topology.prefix:
            return
        self._gone_by = 0 if self._node in found.nodes else self._operators.number
        if self._gone_by:
            return  # what it has delivered can still be read
        known = self._topology.kafka
        kafka = {name: known.get(name, one) for name, one in found.kafka.items()}
        self._topology = replace(found, kafka=kafka)
        self._all = {**dict.fromkeys(kafka, ClosedKafka(_UNKNOWN_WAY)), **self._all}
        self._pressure.close()
        self._pressure = Pressure(self._topology, self._node, self._kafka, self._now_ms)
        self._close_view()

    def _follow_node(self) -> None:
        """Follow the topology in force; refuse what needs the node if it is no longer in it."""
        self._follow()
        if self._gone_by:
            raise NodeGoneError(self._node, self._gone_by)

    # -- publishing -----------------------------------------------------------------------

    @property
    @by_one_thread
    def direct_only_zone(self) -> str | None:
        """The zone over whose links nothing guaranteed leaves the node, if any. Spec: DMR-11."""
        return direct_only_zone_of(self.topology, self._node)

    @by_one_thread
    def publish(
        self,
        subject: str,
        payload: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        message_class: MessageClass = MessageClass.GUARANTEED,
    ) -> Published:
        """Hand over one message; `flush` says whether it was accepted.

        Args:
            subject: Mesh address.
            payload: None is a tombstone.
            key: Messages with the same key keep their order.
            headers: The client's own; headers of the mesh are refused.
            message_class: Guaranteed or direct.

        Returns:
            The message. Once Kafka has acknowledged it, it knows its position and identity, or
            else why it was not accepted.

        Raises:
            SubjectError: The subject, a header or the size is not allowed; nothing was sent.
            BackpressureError: The node takes no guaranteed messages just now; nothing was sent.
            PausedError: The node takes no messages of this subject just now; nothing was sent.
            NodeGoneError: The node is not in the topology in force; nothing was sent.
            TransportError: Kafka does not answer, or the node's topics do not exist.
            ClosedError: This client was closed, or made before a fork. All its methods raise this.
            SharedError: Another thread is using it. All its methods but `close` raise this.

        Spec: K6, K7, R14.
        """
        self._follow_node()
        message_class = enum_member(MessageClass, "message_class", message_class)
        given = outgoing(self._topology, subject, payload, key, headers)
        if message_class is MessageClass.GUARANTEED:
            self._pressure.check()
        topic = self._names.ingress(self._node, message_class)
        topic_id = self._require(topic)
        self._operators.check(subject)
        published = Published(subject, message_class, topic, topic_id)
        self._in_flight.publish(published, given)
        return published

    @by_one_thread
    def flush(self) -> int:
        """Wait until everything published so far is accepted; return the number of messages.

        It waits half a minute at most: a broker that dies or hangs is replaced in that time.

        Raises:
            NotPublishedError: Some were not accepted; its `refused` lists them with the reasons.
        """
        total = self._in_flight.flush()
        self._answered_ms = self._now_ms()
        return total

    def _require(self, topic: str) -> str:
        """Return the id of a topic; refuse one that does not exist: records would be lost."""
        former, looked_ms = self._topic_ids.get(topic, ("", 0))
        # It may have been recreated. Check once brokers have answered meanwhile, and not during an
        # outage, which published messages outlive.
        if former and self._answered_ms - looked_ms < KNOWN_MS:
            return former
        try:
            known = self._kafka.admin().describe([topic])
        except TransportUnavailableError:
            if not former:
                raise
            # A broker that the topic does not need may hang.
            self._topic_ids[topic] = (former, self._now_ms())
            return former
        if topic not in known:
            self._topic_ids.pop(topic, None)
            kafka = self._topology.nodes[self._node].kafka
            raise TransportDeniedError(
                f"topic {topic} does not exist on Kafka cluster {kafka}: start node {self._node}, "
                "or `mesh up`",
                topics=[topic],
            )
        topic_id = known[topic].topic_id.hex()
        self._topic_ids[topic] = (topic_id, self._now_ms())
        return topic_id

    # -- subscribing ----------------------------------------------------------------------

    @by_one_thread
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
        """Subscribe an endpoint to a filter; return the version to pass to `wait`.

        Args:
            endpoint: Name of the endpoint; it is created if it does not exist.
            filter_: What it wants.
            message_class: Of the endpoint: whether messages wait for it while the node is down.
            lease_s: Seconds after which the subscription ends unless it is renewed. This client
                renews it until it is closed, or another client makes it permanent or ends it.
            noexport: Attract nothing from other nodes; receive only what comes to this one.
            kind: Kind of the endpoint.
            policy: Of a queue; if omitted, the declared one, or `every`.

        Raises:
            SubjectError: The endpoint, the filter or the lease is not allowed, a channel is given
                a policy, or a queue another one than it has, or `home` or `any` with `noexport`.
            OtherKindError: The endpoint already has another kind or class.
            NodeGoneError: The node is not in the topology in force.
            TransportError: Kafka did not accept it.

        Spec: K13, DMR-12.
        """
        check_names(endpoint, filter_)
        check_flags(noexport=noexport)
        subscription = Subscription(
            enum_member(EndpointKind, "kind", kind),
            enum_member(MessageClass, "message_class", message_class),
            None if policy is None else enum_member(QueuePolicy, "policy", policy),
            lease_s,
            noexport,
        )
        self._follow_node()
        self._require(self._names.clients(self._node))
        return self._subscriptions.subscribe(
            self._topology, self._node, endpoint, filter_, subscription
        )

    def begin_renewing(self) -> None:
        """Renew leases in a background thread until `close`; `connect` has done that."""
        self._thread.check()
        self._subscriptions.leases.begin()

    def renew_leases(self) -> None:
        """Renew leases of which a third has passed, where no thread does so (`begin_renewing`).

        Like that thread it disturbs no other user of the client.
        """
        self._thread.check()
        self._subscriptions.leases.renew()

    @by_one_thread
    def unsubscribe(self, endpoint: str, filter_: str) -> int:
        """End a subscription, if there is one; return the version to pass to `wait`.

        Raises:
            SubjectError, NodeGoneError, TransportError: As for `subscribe`.
        """
        check_names(endpoint, filter_)
        self._follow_node()
        self._require(self._names.clients(self._node))
        return self._subscriptions.unsubscribe(endpoint, filter_)

    @by_one_thread
    def subscribed(self) -> Mapping[tuple[str, str], Subscription]:
        """Return every subscription at the node by (endpoint, filter), in the order written."""
        return self._subscriptions.subscribed()

    @by_one_thread
    def wait(self, version: int, timeout_s: float = 60.0) -> Sequence[tuple[str, str]]:
        """Wait until every live, reachable node has acknowledged a version.

        Args:
            version: What `subscribe` or `unsubscribe` returned.
            timeout_s: How long to wait at most.

        Returns:
            Links (from, to) that have not acknowledged it because their other end is down or out of
            reach: there it takes effect later.

        Raises:
            LaggardsError: It timed out; the error names the links that are still open.
            NodeGoneError: The node is not, or no longer, in the topology in force.
            TypeError: The argument is not a version.

        Spec: K24.
        """
        check_number("version", version, "what `subscribe` returns")
        deadline = deadline_of(self._now_ms(), timeout_s)
        topic = self._names.clients(self._node)
        described = self._kafka.admin().describe([topic]).get(topic)
        topic_id = None if described is None else described.topic_id
        while True:
            self._follow_node()  # a change may add or remove nodes to wait for
            view = self._looked()
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

    @by_one_thread
    def refusal(self, endpoint: str, timeout_s: float = 10.0) -> str | None:
        """Return why the node refuses a queue's subscription, or None; call it after `wait`."""
        until_ms = deadline_of(self._now_ms(), timeout_s)
        view, pause = self._looked(), self._pause
        return refusal(
            view, self._node, endpoint, until_ms=until_ms, now_ms=self._now_ms, pause=pause
        )

    def _looked(self) -> MeshView:
        """Return what is known of the mesh now."""
        if self._view is None:
            self._view = MeshView(self._topology, self._all, self._now_ms, name="wait")
        try:
            self._view.refresh()
        except BaseException:  # Ctrl-C: what was read is lost, and never comes again
            self._close_view()
            raise
        return self._view

    def _close_view(self) -> None:
        view, self._view = self._view, None
        if view is not None:
            view.close()

    # -- receiving ------------------------------------------------------------------------

    @by_one_thread
    def deliveries(self, endpoint: str, *, from_beginning: bool = True) -> Deliveries:
        """Return the messages delivered to an endpoint of the node, committed ones only.

        Args:
            endpoint: Its name.
            from_beginning: Start with the oldest, or only with what comes from now on.

        Raises:
            SubjectError: The name is not allowed.
        """
        check_name("endpoint", endpoint)
        check_flags(from_beginning=from_beginning)
        topology = self.topology
        stream = Deliveries(
            self._kafka,
            topology.prefix,
            self._node,
            endpoint,
            topology.nodes[self._node].partitions,
            from_beginning=from_beginning,
            now_ms=self._now_ms,
            pause=self._pause,
        )
        return self._kept(stream)

    @by_one_thread
    def channel(self, endpoint: str, group: str) -> ChannelReader:
        """Read a channel of the node as a member of a group, which keeps its position.

        A later reader of the same group continues where it left off; concurrent ones share it.

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

    @by_one_thread
    def consume(self, queue: str, *, deliveries_max: int | None = None) -> QueueConsumer:
        """Join the consumers of a queue at the node.

        Args:
            queue: Its name.
            deliveries_max: How often a message is handed out before it becomes a dead letter; None
                means as `spec.queues` says, or else without limit.

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
        """Remember what to close later, and forget what is closed already."""
        self._streams = [*(one for one in self._streams if not one.is_closed), stream]
        return stream

    @by_one_thread
    def roles(self, app: str, *, lease_s: float = 10.0, is_new: bool = True) -> Roles:
        """Return an application that takes roles and sends to them; `with` opens it.

        Args:
            app: Its name; two of the same name at one node are one application.
            lease_s: How long it lives without renewing its lease.
            is_new: End what an earlier application of this name held.

        Raises:
            SubjectError: The name or the lease is not valid.
        """
        check_flags(is_new=is_new)
        roles = Roles(
            self._kafka,
            self._topology,
            self._node,
            app,
            lease_s=lease_s,
            now_ms=self._now_ms,
            pause=self._pause,
            is_new=is_new,
            check_usable=self._thread.check,
        )
        self._applications.add(roles)
        return roles

    def close(self) -> None:
        """Release everything; unflushed messages may be lost, `with` flushes them.

        After a fork the resources belong to the other process.
        """
        self._thread.end(self._release)

    def _release(self) -> None:
        with ExitStack() as closing:  # in reverse order, each of them whatever another raises
            for kafka in self._all.values():
                closing.callback(kafka.close)
            closing.callback(self._subscriptions.close)
            closing.callback(self._in_flight.close)
            closing.callback(self._close_view)
            closing.callback(self._operators.close)
            closing.callback(self._pressure.close)
            for stream in self._streams:
                closing.callback(_close_all_the_same, stream)
            for application in self._applications:
                closing.callback(application.leave)
            closing.callback(self._subscriptions.leases.close)

    def __enter__(self) -> Self:
        self._thread.check()
        return self

    def __exit__(self, raised: type[BaseException] | None, *_more: object) -> None:
        """Flush, unless an exception was raised, and close.

        Raises:
            NotPublishedError: As for `flush`; the client is closed all the same.
        """
        self._thread.end(self._release if raised else self._flush_and_release)

    def _flush_and_release(self) -> None:
        try:
            self._in_flight.flush()
        finally:
            self._release()
