"""What a message left at the nodes that it reached: frames on their outboxes, and deliveries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mesh.errors import ProtocolError
from mesh.model.frames import Era, FrameFlags, FrameHeader, MessageClass
from mesh.operate.messages.search import Search
from mesh.transport.port import Record, TopicPartition, place_of
from mesh.view.messages import MessageIdentity
from mesh.wire.state import decode_ledger


@dataclass(frozen=True, slots=True)
class Ingress:
    """Where a message entered the mesh.

    Attributes:
        node: The origin node.
        place: Ingress topic and partition.
        identity: Intrinsic identity.
        message_class: Its class.
    """

    node: str
    place: TopicPartition
    identity: MessageIdentity
    message_class: MessageClass


@dataclass(frozen=True, slots=True)
class FrameSeen:
    """A frame on an outbox that carries the message.

    Attributes:
        first, last: Range of ingress offsets that the frame covers.
        messages: Messages in it.
        appended_ms: The broker's time of the record.
        eras: The topologies under which its messages were taken, per domain. Spec: K10.
    """

    source: str
    target: str
    place: TopicPartition
    offset: int
    path: tuple[str, ...]
    first: int
    last: int
    messages: int
    is_repair: bool
    appended_ms: int
    eras: tuple[Era, ...] = ()


@dataclass(frozen=True, slots=True)
class DeliverySeen:
    """A delivery of the message.

    Attributes:
        committed_ms: When its batch was written, by the broker's clock: the record itself has its
            publisher's time. None if the ledger no longer says, or which of several records it was
            is unknown.
    """

    node: str
    endpoint: str
    place: TopicPartition
    offset: int
    path: tuple[str, ...]
    committed_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RecordedArrival:
    """A node that the message reached, in which record, and when: None if that cannot be known."""

    node: str
    source: TopicPartition
    offset: int
    ms: int | None


@dataclass(slots=True)
class Step:
    """What one node made of the message, and where in its topics to look for that.

    Attributes:
        at: The node, and the record in which the message came.
        ledger: Where the node records what its batches read and wrote.
        endpoints, outboxes: Partitions that may hold something of it, and their recipients.
        ends: How far these can be read.
        begins, until: The offsets between which to look.
        frames, deliveries: What was found.
        unseen: Partitions that may hold more in records that were not examined.
    """

    at: RecordedArrival
    ledger: TopicPartition
    endpoints: Mapping[TopicPartition, str]
    outboxes: Mapping[TopicPartition, str]
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    begins: Mapping[TopicPartition, int] = field(default_factory=dict)
    until: Mapping[TopicPartition, int] = field(default_factory=dict)
    frames: list[FrameSeen] = field(default_factory=list)
    deliveries: list[DeliverySeen] = field(default_factory=list)
    unseen: list[TopicPartition] = field(default_factory=list)

    _outboxes: Mapping[str, TopicPartition] = field(init=False)
    _committed_ms: Mapping[str, int] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._outboxes = {place.topic: place for place in self.outboxes}

    @property
    def places(self) -> Sequence[TopicPartition]:
        """All its partitions."""
        return [*self.endpoints, *self.outboxes, self.ledger]

    def take(self, record: Record, search: Search) -> None:
        """Note a record of one of its partitions if it carries the message."""
        # One partition of each topic is read, and comparing names is faster than places.
        node = self.at.node
        if record.topic() == self.ledger.topic:
            self._take_account(record)
        elif (outbox := self._outboxes.get(record.topic())) is not None:
            if (header := search.frame(record)) is not None:
                self.frames.append(_frame(node, self.outboxes[outbox], outbox, record, header))
        elif (message := search.delivery(record)) is not None:
            place, offset = place_of(record), record.offset()
            name = self.endpoints[place]
            self.deliveries.append(DeliverySeen(node, name, place, offset, message.path))

    @property
    def is_accounted(self) -> bool:
        """Whether the batch that took the message is known."""
        return self._committed_ms is not None

    def _take_account(self, record: Record) -> None:
        """Note when the node wrote the batch that took the message, and to which endpoints."""
        value, source = record.value() or b"", self.at.source
        if source.topic.encode() not in value:
            return
        try:
            ledger = decode_ledger(value)
        except ProtocolError:
            return  # a newer version of the wire
        for of in ledger.sources:
            is_it = (of.topic, of.partition) == (source.topic, source.partition)
            if is_it and of.first <= self.at.offset < of.next:
                at_ms = record.timestamp()[1]
                self._committed_ms = {one.endpoint: at_ms for one in ledger.delivered}

    def _tell_times(self) -> None:
        """Note when deliveries were written, except where there are several of one."""
        endpoints = [one.endpoint for one in self.deliveries]
        told = self._committed_ms or {}
        for number, one in enumerate(self.deliveries):
            if endpoints.count(one.endpoint) == 1:
                self.deliveries[number] = replace(one, committed_ms=told.get(one.endpoint))

    def end(self, search: Search) -> None:
        """Sort what was found, because partitions are read in parallel."""
        order = {place: number for number, place in enumerate(self.places)}
        self.deliveries.sort(key=lambda one: (order[one.place], one.offset))
        self.frames.sort(key=lambda one: (order[one.place], one.offset))
        self._tell_times()
        left = [place for place, end in self.until.items() if end < self.ends.get(place, 0)]
        can_hold = [place for place in left if place != self.ledger]
        self.unseen += [place for place in can_hold if place.topic not in search.passed]


def _frame(
    node: str, neighbour: str, place: TopicPartition, record: Record, header: FrameHeader
) -> FrameSeen:
    return FrameSeen(
        source=node,
        target=neighbour,
        place=place,
        offset=record.offset(),
        path=header.hop.path,
        first=header.origin.first,
        last=header.origin.last,
        messages=header.origin.count,
        is_repair=bool(header.flags & FrameFlags.REPAIR),
        appended_ms=record.timestamp()[1],
        eras=header.origin.eras,
    )
