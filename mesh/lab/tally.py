"""What really is in the topics: counted from the outside, the same way for every backend.

Spec: lab.md 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.model.facts import Gap, Held
from mesh.model.frames import FrameFlags, FrameKind, MessageClass
from mesh.model.queues import moves_of
from mesh.model.reasons import DISCARDED_DIRECT, Reason
from mesh.model.record_headers import MESH_HEADER, SUBJECT_HEADER
from mesh.model.topology import Node, Topology
from mesh.transport.following import Follower
from mesh.transport.headers import headers_of
from mesh.transport.port import KafkaCluster, Record, TopicPartition, place_of
from mesh.view.lane_reports import LaneReport
from mesh.wire.announcements import is_announcement
from mesh.wire.deliveries import decode_delivery
from mesh.wire.frames import decode_header
from mesh.wire.keys import NODE_KEYS, AdvertKey, parse_key
from mesh.wire.state import decode_ledger

MessageId = tuple[bytes, int, int, int]
"""Identity of a message: ingress topic id, partition, generation, offset. Spec: K9."""


@dataclass(slots=True)
class LinkTally:
    """One direction of a link."""

    messages: int = 0
    frames: int = 0
    control: int = 0


@dataclass(slots=True)
class EndpointTally:
    """One endpoint topic: records, those of guaranteed messages, and what the lab judges.

    Of a queue `moved` says of a message how often it was moved from member to member, and `again`
    counts those that came back: they are no duplicates; `moves` counts all that were moved here.
    """

    count: int = 0
    guaranteed: int = 0
    seen: set[MessageId] = field(default_factory=set)
    disordered: int = 0
    paths: Counter[str] = field(default_factory=Counter)
    newest: dict[tuple[bytes, int], int] = field(default_factory=dict)
    moved: dict[MessageId, int] = field(default_factory=dict)
    again: int = 0
    moves: int = 0

    def place(self, identity: MessageId) -> int:
        """Return how often a message was moved before it came here last."""
        return self.moved.get(identity, 0)

    @property
    def distinct(self) -> int:
        """Messages, each counted once."""
        return len(self.seen)


@dataclass(frozen=True, slots=True)
class PublishedRecord:
    """A message in an ingress topic."""

    place: TopicPartition
    offset: int
    message_class: MessageClass
    subject: str


class Tally:
    """Follows every topic of a mesh and counts.

    Attributes:
        links: Per direction, `a->b`.
        endpoints: Per endpoint, `node/name`.
        not_forwarded: Messages per reason.
        published: Every message of every ingress.
        ends: Offset after the last committed record of each ingress and outbox partition.
        copies: What ledgers account for: direct messages sent over links, by `a->b`, and messages
            of both classes delivered to endpoints, by `node/name`.
        direct_copies: Direct messages found on links, by `a->b`.
    """

    def __init__(
        self, topology: Topology, kafka: Mapping[str, KafkaCluster], now_ms: Callable[[], int]
    ) -> None:
        self.links: dict[str, LinkTally] = {}
        self.endpoints: dict[str, EndpointTally] = {}
        self.not_forwarded: Counter[str] = Counter()
        self.discarded_direct = 0
        self.published: dict[MessageId, PublishedRecord] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.copies: Counter[str] = Counter()
        self.direct_copies: Counter[str] = Counter()
        self._reports: dict[str, LaneReport] = {}
        self._nodes: dict[str, Node] = {}
        self._kafka = kafka
        self._names = topology.names
        self._decoders: dict[str, Callable[[Record], None]] = {}
        self._topic_ids: dict[str, bytes] = {}
        self._homes: dict[str, Follower] = {}
        self._skipped: dict[TopicPartition, int] = {}
        self._now_ms = now_ms
        self._followers: dict[str, Follower] = {}
        self.extend(topology)

    def extend(self, topology: Topology) -> None:
        """Count what is new in this topology too, and nothing less than before."""
        self._topology = topology
        self._nodes |= topology.nodes
        for name in topology.kafka:
            if name not in self._followers:
                self._followers[name] = Follower(self._kafka[name], "mesh-lab-tally", self._now_ms)
        for node in topology.nodes:
            self._follow_node(node)

    def _follow_node(self, node: str) -> None:
        names, declared = self._names, self._topology.nodes[node]
        for message_class in MessageClass:
            self._follow(
                node, names.ingress(node, message_class), declared.partitions, self._ingress
            )
        for link in self._topology.links_of(node):
            other = link.other(node)
            self.links.setdefault(f"{node}->{other}", LinkTally())
            for message_class in MessageClass if self._topology.sends(node, other) else ():
                outbox = names.outbox(node, other, message_class)
                self._follow(
                    node, outbox, declared.partitions, self._frames_of(node, other, message_class)
                )
        self._follow(node, names.ledger(node), declared.lane_partitions, self._ledger)
        report = self._reports.setdefault(node, LaneReport(declared.lanes))
        self._follow(node, names.progress(node), declared.lane_partitions, report.take)
        self._follow(node, names.control_log(node), 1, self._control_of(node))

    def _follow(
        self, node: str, topic: str, partitions: int, decode: Callable[[Record], None]
    ) -> None:
        if topic in self._decoders:
            return
        self._decoders[topic] = decode
        follower = self._homes[topic] = self._followers[self._nodes[node].kafka]
        follower.add(TopicPartition.all_of(topic, partitions))

    def follow_endpoint(self, node: str, endpoint: str) -> None:
        """Count an endpoint from now on, its past included."""
        name = f"{node}/{endpoint}"
        if name in self.endpoints:
            return
        tally = self.endpoints[name] = EndpointTally()
        topic = self._names.endpoint(node, endpoint)
        partitions = self._nodes[node].partitions
        self._follow(node, topic, partitions, lambda record: _deliver(tally, record))

    def refresh(self) -> None:
        """Read everything that is new."""
        for follower in self._followers.values():
            for record in follower.poll():
                if self._skipped and self._pass_if_counted(record):
                    continue
                self._decoders[record.topic()](record)

    def read_again(self, places: Mapping[TopicPartition, int]) -> None:
        """Go on at these offsets with partitions whose log is not what it was."""
        for place, offset in places.items():
            self.ends.pop(place, None)
            self._topic_ids.pop(place.topic, None)
            if (follower := self._homes.get(place.topic)) is not None:
                follower.remove(place)
                follower.add([place])
                self._skipped[place] = offset

    def _pass_if_counted(self, record: Record) -> bool:
        """Return whether a record was counted before its log changed; note that it is there."""
        place = place_of(record)
        is_known = record.offset() < self._skipped.get(place, 0)
        if is_known and not self._names.is_endpoint(place.topic):
            self.ends[place] = record.offset() + 1
        return is_known

    # -- decoders -------------------------------------------------------------------------

    def _ingress(self, record: Record) -> None:
        topic = record.topic()
        place = place_of(record)
        self.ends[place] = record.offset() + 1
        subjects = [value for name, value in headers_of(record) if name == SUBJECT_HEADER]
        subject = (subjects[0] or b"").decode(errors="replace") if len(subjects) == 1 else ""
        message_class = self._names.class_of(topic)
        assert message_class is not None, topic
        identity = (self.topic_id(topic), place.partition, 0, record.offset())
        self.published[identity] = PublishedRecord(place, record.offset(), message_class, subject)

    @property
    def pending(self) -> Sequence[tuple[str, Gap | Held]]:
        """What nodes catch up beside their lanes: gaps, and targets that they hold."""
        return [(node, one) for node, report in self._reports.items() for one in report.owed]

    def position(self, reader: str, place: TopicPartition) -> int:
        """Return the next offset of a source; one in a topic that was deleted is none. Spec: K4."""
        report = self._reports.get(reader)
        found = None if report is None else report.read.sources.get(place)
        if found is None or self.topic_id(place.topic) not in (b"", found.topic_id):
            return 0
        return found.next

    def topic_id(self, topic: str) -> bytes:
        """Return the broker's id of a topic, or nothing if it does not exist."""
        if topic not in self._topic_ids:
            for kafka in self._kafka.values():
                for name, info in kafka.admin().describe([topic]).items():
                    self._topic_ids[name] = info.topic_id
        return self._topic_ids.get(topic, b"")

    def _frames_of(
        self, source: str, target: str, message_class: MessageClass
    ) -> Callable[[Record], None]:
        name = f"{source}->{target}"
        tally = self.links[name]

        def decode(record: Record) -> None:
            self.ends[place_of(record)] = record.offset() + 1
            header = decode_header(record.key() or b"")
            if not header.flags & FrameFlags.REPAIR:
                tally.messages += header.origin.count
                tally.frames += 1
            if message_class is MessageClass.DIRECT and header.kind is FrameKind.DATA:
                self.direct_copies[name] += header.origin.count

        return decode

    def _control_of(self, node: str) -> Callable[[Record], None]:
        def decode(record: Record) -> None:
            key = parse_key(record.key() or b"", NODE_KEYS)
            if not isinstance(key, AdvertKey) or key.filter.startswith("$node/"):
                return
            is_here = node in self._topology.nodes
            for link in self._topology.links_of(node) if is_here else ():
                reader = link.other(node)
                if link.zone == key.scope.zone and key.scope.neighbour in ("", reader):
                    self.links[f"{node}->{reader}"].control += 1

        return decode

    def _ledger(self, record: Record) -> None:
        ledger = decode_ledger(record.value() or b"")
        for sent in ledger.sent:
            if sent.message_class is MessageClass.DIRECT:
                self.copies[f"{ledger.node}->{sent.neighbour}"] += sent.messages
        for delivered in ledger.delivered:
            self.copies[f"{ledger.node}/{delivered.endpoint}"] += delivered.messages
        for dropped in ledger.dropped:
            if dropped.reason in DISCARDED_DIRECT:
                self.discarded_direct += dropped.messages
        for entry in ledger.not_forwarded:
            self.not_forwarded[entry.reason] += entry.messages
            if entry.message_class is MessageClass.DIRECT and entry.reason != Reason.NO_INTEREST:
                self.discarded_direct += entry.messages

    def close(self) -> None:
        """Release the readers."""
        for follower in self._followers.values():
            follower.close()


def _deliver(tally: EndpointTally, record: Record) -> None:
    headers = headers_of(record)
    if is_announcement(headers):
        return  # announces a loss: no message
    content = next(value for name, value in reversed(headers) if name == MESH_HEADER)
    delivery = decode_delivery(content or b"")
    source = (delivery.source.topic_id, delivery.source.partition)
    tally.count += 1
    tally.guaranteed += delivery.message_class is MessageClass.GUARANTEED
    identity = (*source, delivery.generation, delivery.offset)
    if moves := moves_of(delivery.ext):
        tally.again += identity in tally.seen and tally.place(identity) != moves
        tally.moves += 1
        tally.moved[identity] = max(moves, tally.place(identity))
    tally.seen.add(identity)
    if not moves and delivery.offset < tally.newest.get(source, -1):
        tally.disordered += 1
    if not moves:
        tally.newest[source] = max(delivery.offset, tally.newest.get(source, -1))
    tally.paths[">".join(delivery.path)] += 1
