"""The mesh's own accounts, followed live: what crossed which link and reached which endpoint.

The ledgers have one small record per batch, so following them costs a hundredth of reading the
messages. The messages themselves are counted once, at the end, by `mesh.lab.demo.harvest`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mesh.errors import ProtocolError, TransportError
from mesh.model.frames import MessageClass
from mesh.model.state import Ledger
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.following import Follower
from mesh.transport.port import KafkaCluster, Record, TopicPartition
from mesh.wire.state import decode_ledger


@dataclass(slots=True)
class LinkAccount:
    """One direction of a link: what its sender wrote and its reader read."""

    messages: int = 0
    frames: int = 0
    direct: int = 0
    read: int = 0


@dataclass(slots=True)
class Accounts:
    """Follows the ledgers of every node.

    Attributes:
        links: Per direction, `a->b`.
        delivered: Per (`node/endpoint`, class of the messages).
        taken: Messages read from the ingress of each node, by class.
        not_forwarded: Messages per reason.
        fault: Why the last look failed, or empty.
    """

    topology: Topology
    kafka: Mapping[str, KafkaCluster]
    now_ms: Callable[[], int]
    links: dict[str, LinkAccount] = field(default_factory=dict)
    delivered: Counter[tuple[str, MessageClass]] = field(default_factory=Counter)
    taken: Counter[tuple[str, MessageClass]] = field(default_factory=Counter)
    not_forwarded: Counter[str] = field(default_factory=Counter)
    fault: str = ""
    _followers: dict[str, Follower] = field(default_factory=dict)
    _sources: dict[str, LinkAccount | tuple[str, MessageClass]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Name the topics; nothing is read yet."""
        names = TopicNames(self.topology.prefix)
        for node, declared in self.topology.nodes.items():
            if declared.kafka not in self._followers:
                self._followers[declared.kafka] = Follower(
                    self.kafka[declared.kafka], "accounts", self.now_ms
                )
            ledger = names.ledger(node)
            places = [TopicPartition(ledger, number) for number in range(2 * declared.lanes)]
            self._followers[declared.kafka].add(places)
            for message_class in MessageClass:
                self._sources[names.ingress(node, message_class)] = (node, message_class)
            for neighbour in self.topology.neighbours(node):
                link = self.links[f"{node}->{neighbour}"] = LinkAccount()
                for message_class in MessageClass:
                    self._sources[names.outbox(node, neighbour, message_class)] = link

    def refresh(self) -> None:
        """Read what is new; a Kafka cluster that does not answer is named in `fault`."""
        self.fault = ""
        for follower in self._followers.values():
            try:
                for record in follower.poll():
                    self._take(record)
            except TransportError as error:
                self.fault = str(error)

    @property
    def in_flight(self) -> int:
        """Guaranteed and direct messages that were sent over a link and not yet read there."""
        return sum(link.messages - link.read for link in self.links.values())

    def total_delivered(self) -> int:
        """Return deliveries of both classes at all endpoints."""
        return sum(self.delivered.values())

    def _take(self, record: Record) -> None:
        try:
            ledger = decode_ledger(record.value() or b"")
        except ProtocolError:
            return  # a newer version of the wire: the auditor says so
        self._take_ledger(ledger)

    def _take_ledger(self, ledger: Ledger) -> None:
        for of in ledger.sources:
            source = self._sources.get(of.topic)
            if isinstance(source, LinkAccount):
                source.read += of.messages
            elif source is not None:
                self.taken[source] += of.messages
        for to in ledger.sent:
            link = self.links.get(f"{ledger.node}->{to.neighbour}")
            if link is not None and not to.repair:
                link.messages += to.messages
                link.frames += to.frames
                if to.message_class is MessageClass.DIRECT:
                    link.direct += to.messages
        for delivery in ledger.delivered:
            endpoint = f"{ledger.node}/{delivery.endpoint}"
            self.delivered[endpoint, delivery.message_class] += delivery.messages
        for refusal in ledger.not_forwarded:
            self.not_forwarded[refusal.reason] += refusal.messages

    def close(self) -> None:
        """Release the readers."""
        for follower in self._followers.values():
            follower.close()
