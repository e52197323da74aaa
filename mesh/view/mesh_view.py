"""The whole mesh as its control topics show it: any client can read them, no node is asked.

Spec: K13, K22-K24, K32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace

from mesh.errors import ProtocolError, TransportError
from mesh.model.control import Change, node_address
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.clock import Timekeeper, timekeeper
from mesh.transport.following import Follower
from mesh.transport.port import KafkaCluster, Record, TopicPartition
from mesh.view.node_view import NodeView
from mesh.wire.control import (
    decode_acknowledgement,
    decode_advert,
    decode_change,
    decode_config,
    decode_heartbeat,
    decode_identity,
    decode_link_state,
    decode_mark,
    decode_stop,
)
from mesh.wire.keys import (
    NEIGHBOUR_KEYS,
    NODE_KEYS,
    OPERATOR_KEYS,
    AcceptKey,
    AckKey,
    AdvertKey,
    ChangeKey,
    DisableKey,
    HeartbeatKey,
    IdentityKey,
    LinkKey,
    LinksKey,
    MarkKey,
    PauseKey,
    RepairKey,
    StopKey,
    SubjectPauseKey,
    SubscribedKey,
    config_key,
    parse_key,
    parse_subscription_key,
)
from mesh.wire.subscriptions import decode_subscription

_CLIENTS = "$clients"
"""Stands in for `clients` where a neighbour's name may be: no node has this name."""

_TRIES_MAX = 16
"""How many records of one key are tried: the newest ones may be unreadable."""


class MeshView:
    """Reads the control topics of every node to their ends, repeatedly.

    Attributes:
        nodes: What is seen of each node.
        unreachable: Kafka clusters that did not answer at the last refresh, with the reason.
        in_force: Records of the topology in force, as bytes, oldest first, by Kafka cluster.
        change: The newest change of the topology that any Kafka cluster holds; None before one.
        change_ms: When its stage was written, by the clock of that Kafka cluster.
    """

    def __init__(
        self,
        topology: Topology,
        kafka: Mapping[str, KafkaCluster],
        now_ms: Callable[[], int],
        *,
        name: str = "mesh-view",
        executor: Executor | None = None,
        gathers: bool = False,
    ) -> None:
        """Set up without reading anything yet.

        Args:
            topology: Its nodes and links are read.
            kafka: Its Kafka clusters, by name.
            now_ms: Monotonic clock.
            name: Client name of the readers.
            executor: Reads Kafka clusters in parallel; without it one after the other.
            gathers: As for a follower, for those who watch for long.
        """
        self.nodes: dict[str, NodeView] = {}
        self.unreachable: dict[str, str] = {}
        self.in_force: dict[str, list[bytes]] = {}
        self._executor = executor
        self._gathers = gathers
        self.change: Change | None = None
        self.change_ms = 0
        self._now_ms = now_ms
        self._name = name
        self._kafka = kafka
        self._followers: dict[str, Follower] = {}
        self._places: dict[str, dict[TopicPartition, None]] = {}
        self._kafka_of: dict[str, str] = {}
        self._decoders: dict[str, tuple[str, str]] = {}
        self._config = TopicNames(topology.prefix).config()
        self.extend(topology, kafka)

    def extend(self, topology: Topology, kafka: Mapping[str, KafkaCluster]) -> None:
        """Read the nodes and links of this topology too; nothing seen so far is forgotten."""
        self._kafka = {**self._kafka, **kafka}
        names = TopicNames(topology.prefix)
        for node, declared in topology.nodes.items():
            self.nodes.setdefault(node, NodeView())
            self._kafka_of[node] = declared.kafka
            topics = {names.control(node): "", names.clients(node): _CLIENTS}
            topics |= {names.to_control(node, p): p for p in topology.neighbours(node)}
            self._decoders |= {topic: (node, about) for topic, about in topics.items()}
            fresh = [TopicPartition(topic, 0) for topic in (*topics, self._config)]
            self._places.setdefault(declared.kafka, {}).update(dict.fromkeys(fresh))
            if declared.kafka in self._followers:
                self._followers[declared.kafka].add(fresh)

    def number_in_force(self, kafka: str) -> int:
        """Return the number of the newest topology that nodes learn from a Kafka cluster.

        0 if they learn of none there.
        """
        numbers = [0]
        for value in self.in_force.get(kafka, ()):
            with suppress(ProtocolError):
                numbers.append(decode_config(value).number)
        if self.change is not None and self.change.stage.has_switched:
            numbers.append(self.change.number)
        return max(numbers)

    def refresh(self) -> None:
        """Read what is new. A Kafka cluster that does not answer is named in `unreachable`."""
        self._look(Follower.poll, list(self._places))

    def glance(self) -> None:
        """Take the records fetched so far, asking no broker: for callers that poll very often.

        Kafka clusters that did not answer are left alone until the next `refresh`.
        """
        self._look(Follower.glance, [one for one in self._places if one not in self.unreachable])

    def _look(self, how: Callable[[Follower], Iterable[Record]], places: Sequence[str]) -> None:
        def read(kafka: str) -> tuple[Sequence[Record], str | None]:
            records: list[Record] = []
            try:
                records.extend(how(self._follower(kafka)))
            except TransportError as error:
                return records, str(error)  # earlier records are not read again
            return records, None

        found = map(read, places) if self._executor is None else self._executor.map(read, places)
        for kafka, (records, fault) in zip(places, found, strict=True):
            self._take(kafka, records)
            if fault is None:
                self.unreachable.pop(kafka, None)
            else:
                self.unreachable[kafka] = fault

    def _follower(self, kafka: str) -> Follower:
        if kafka not in self._followers:
            cluster = self._kafka[kafka]
            follower = Follower(cluster, self._name, self._now_ms, gathers=self._gathers)
            follower.add(list(self._places[kafka]))
            self._followers[kafka] = follower
        return self._followers[kafka]

    def is_unreachable(self, node: str) -> bool:
        """Return whether the Kafka cluster of a node did not answer at the last refresh."""
        return self._kafka_of[node] in self.unreachable

    def is_to_be_disabled(self, one: str, other: str) -> bool:
        """Return whether operators want a link to be disabled, at one of its ends or both.

        Nodes may mention others that nobody here knows yet: those of a change.
        """
        ends = (one, other), (other, one)
        return any(at in self.nodes and to in self.nodes[at].disabled for at, to in ends)

    def node_addresses(self) -> Mapping[str, str]:
        """Return the node of each address: the text of an address has only its identity."""
        return {
            node_address(seen.identity.uuid): name
            for name, seen in self.nodes.items()
            if seen.identity is not None
        }

    def on_kafka_cluster_of(self, node: str) -> Sequence[str]:
        """Return the nodes on the Kafka cluster of a node, itself among them."""
        kafka = self._kafka_of[node]
        return [other for other, its in self._kafka_of.items() if its == kafka]

    def _take(self, kafka: str, records: Iterable[Record]) -> None:
        """Take records; of those with the same key only the newest readable one is decoded."""
        by_key: dict[tuple[str, bytes], list[Record]] = {}
        for record in records:
            topic, key = record.topic(), record.key() or b""
            if topic == self._config:
                self._take_config(kafka, key, record)
                continue
            same = by_key.pop((topic, key), [])
            by_key[topic, key] = [*same[-_TRIES_MAX + 1 :], record]
        for (topic, key), same in by_key.items():
            node, about = self._decoders[topic]
            view = self.nodes[node]
            if about == _CLIENTS:
                view.clients_offset = max(view.clients_offset, same[-1].offset())
            for record in reversed(same):
                try:
                    if about == _CLIENTS:
                        self._take_client(view, key, record)
                    elif about:
                        self._take_neighbour(view, about, key, record)
                    else:
                        self._take_node(view, key, record)
                except ProtocolError:
                    continue  # the node itself counts and logs what is unreadable
                break

    def _take_config(self, kafka: str, key: bytes, record: Record) -> None:
        if key != config_key():
            with suppress(ProtocolError):
                self._take_operator_record(key, record)
        elif (value := record.value()) is not None:
            self.in_force.setdefault(kafka, []).append(value)

    def _take_operator_record(self, key: bytes, record: Record) -> None:
        value = record.value()
        match parse_key(key, OPERATOR_KEYS):
            case (PauseKey(node) | DisableKey(node) | SubjectPauseKey(node)) as found if (
                node in self.nodes
            ):
                self.nodes[node].take_operator_record(found, value)
            case ChangeKey() if value is not None:
                change = decode_change(value)
                if self.change is None or change.version > self.change.version:
                    self.change, self.change_ms = change, record.timestamp()[1]
            case ChangeKey():
                pass  # one that was ended
            case PauseKey() | DisableKey() | SubjectPauseKey() | AcceptKey():
                pass  # of an unknown node; consents matter only to the node

    def _take_client(self, view: NodeView, raw_key: bytes, record: Record) -> None:
        key = parse_subscription_key(raw_key)
        value = record.value()
        if value is None:
            view.subscriptions.pop(key, None)
            view.subscribed_ms.pop(key, None)
        else:
            asked = decode_subscription(value)
            if view.subscriptions.get(key) != asked:  # else a lease was renewed: it holds as before
                view.subscribed_ms[key] = record.timestamp()[1]
            view.subscriptions[key] = asked

    def _take_node(self, view: NodeView, raw_key: bytes, record: Record) -> None:
        """Take a record of a node's `.control`; one without a value ends what it was about."""
        value = record.value()
        match parse_key(raw_key, NODE_KEYS):
            case IdentityKey() if value is not None:
                view.identity = decode_identity(value)
            case HeartbeatKey() if value is not None:
                view.heartbeat = decode_heartbeat(value)
                view.heard_ms = self._now_ms()
                view.beat_ms = record.timestamp()[1]
            case SubscribedKey() if value is not None:
                view.subscribed = decode_acknowledgement(value)
            case AdvertKey(scope, filter_) if value is not None:
                view.offers.setdefault(scope, {})[filter_] = decode_advert(value)
                view.offered_ms[scope, filter_] = record.timestamp()[1]
            case AdvertKey(scope, filter_):
                view.offers.get(scope, {}).pop(filter_, None)
                view.offered_ms.pop((scope, filter_), None)
            case MarkKey(scope) if value is not None:
                view.marks[scope] = decode_mark(value)
            case MarkKey(scope):
                view.marks.pop(scope, None)  # its link was removed
            case StopKey(topic, partition) if value is not None:
                view.stops[TopicPartition(topic, partition)] = decode_stop(value)
            case StopKey(topic, partition):
                view.stops.pop(TopicPartition(topic, partition), None)
            case IdentityKey() | HeartbeatKey() | SubscribedKey():
                pass  # nobody withdraws that: the newest holds
            case LinksKey():
                pass  # the topology says which links there are

    def _take_neighbour(
        self, view: NodeView, neighbour: str, raw_key: bytes, record: Record
    ) -> None:
        """Take a record of a node for one neighbour; one without a value says nothing new."""
        if (value := record.value()) is None:
            return
        match parse_key(raw_key, NEIGHBOUR_KEYS):
            case AckKey(scope):
                view.acks[neighbour, scope] = decode_acknowledgement(value)
            case LinkKey():
                former = view.link_states.get(neighbour)
                view.link_states[neighbour] = decode_link_state(value).after(former)
            case RepairKey():
                pass  # between the two

    def still(self) -> MeshView:
        """Return a copy of the present view, for threads that read while this one refreshes.

        The copy is not refreshed and not closed.
        """
        copied = copy(self)
        copied.nodes = {name: _still(seen) for name, seen in self.nodes.items()}
        copied.unreachable = dict(self.unreachable)
        copied.in_force = {name: list(values) for name, values in self.in_force.items()}
        return copied

    def close(self) -> None:
        """Release the readers."""
        for follower in self._followers.values():
            follower.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningMesh:
    """A running mesh.

    Attributes:
        topology: What is in force, with every address that is known.
        kafka: Clients of its Kafka clusters by name; of one that is left out nothing is asked.
        view: Its control topics, read to their ends.
        beats: Which nodes are up; may be waited for when first asked.
        time: How time passes for those who wait for it to change.
    """

    topology: Topology
    kafka: Mapping[str, KafkaCluster]
    view: MeshView
    beats: Mapping[str, bool]
    time: Timekeeper = field(default_factory=timekeeper)

    def home_of(self, node: str) -> KafkaCluster:
        """Return the Kafka cluster of a node."""
        return self.topology.home_of(node, self.kafka)

    def asking(self, kafka: Mapping[str, KafkaCluster]) -> RunningMesh:
        """Return the same mesh, of which these Kafka clusters alone are asked."""
        return RunningMesh(
            topology=self.topology, kafka=kafka, view=self.view, beats=self.beats, time=self.time
        )


def _still(seen: NodeView) -> NodeView:
    return replace(
        seen,
        marks=dict(seen.marks),
        offers={scope: dict(offers) for scope, offers in seen.offers.items()},
        offered_ms=dict(seen.offered_ms),
        acks=dict(seen.acks),
        link_states=dict(seen.link_states),
        subscriptions=dict(seen.subscriptions),
        subscribed_ms=dict(seen.subscribed_ms),
        stops=dict(seen.stops),
        pauses=dict(seen.pauses),
        disabled=dict(seen.disabled),
        subject_pauses=dict(seen.subject_pauses),
    )
