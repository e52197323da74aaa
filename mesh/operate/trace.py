"""One message followed through the topics: ingress, frames on outboxes, deliveries. Spec: K3, K9.

Partition i of a source goes to partition i mod P of every target, so one partition per topic is
read. Where in it is found by time: a delivery has the time of its message, and a frame is written
after the message, or after the frame that brought it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mesh.errors import TransportError, TransportUnavailableError, wrong_input
from mesh.model.frames import Era, FrameFlags, FrameHeader, MessageClass
from mesh.model.headers import SUBJECT_HEADER
from mesh.model.names import name_fault
from mesh.model.state import DeadLetter
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.operate.dead_letters import header_of
from mesh.operate.search import Search
from mesh.transport.headers import headers_of
from mesh.transport.port import KafkaCluster, Record, TopicPartition
from mesh.transport.reading import read_logs, read_range
from mesh.view.lane_reports import read_positions
from mesh.view.messages import MessageIdentity

SCANNED_MAX = 100_000
"""Newest records that may be looked at in each outbox and endpoint."""

SHORT_MAX = 20_000
"""Records that are looked at from where the message can be."""

CLOCKS_MS = 60_000
"""So far may the clocks of a publisher and of two Kafka clusters be apart."""

DIGITS_MAX = 19
"""Of a partition, generation or offset."""

FORMS = "write TOPIC/PARTITION/OFFSET of the ingress record, or the id that `mesh subscribe` prints"


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
        first, last: Stretch of ingress offsets that the frame speaks for.
        messages: Messages in it.
        appended_ms: The broker's time of the record.
        eras: By which topology its messages were taken, per domain. Spec: K10.
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
    """A delivery of the message."""

    node: str
    endpoint: str
    place: TopicPartition
    offset: int
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A node that the message came to, in which partition, and when: None if nobody can know."""

    node: str
    partition: int
    ms: int | None


@dataclass(slots=True)
class Trace:
    """What was found of one message.

    Attributes:
        ingress: Where it entered.
        subject: From its record; None if the record is gone or has none.
        size: Bytes of its payload; None if the record is gone or it is a tombstone.
        created_ms: The publisher's time; None if the record is gone.
        is_there: Whether the ingress record is still there.
        is_routed: Whether the origin node has passed it.
        end: Offset that the next message of its ingress partition gets.
        frames: On outboxes, in the order of the walk.
        deliveries: To endpoints that have a topic.
        letter: Why it was refused, or None.
        unseen: Partitions that may hold more in records that were not looked at.
        unknown: Nodes that it came to, of whose topics nothing is known: their Kafka cluster does
            not answer.
    """

    ingress: Ingress
    subject: str | None = None
    size: int | None = None
    created_ms: int | None = None
    is_there: bool = False
    is_routed: bool = False
    end: int = 0
    frames: list[FrameSeen] = field(default_factory=list)
    deliveries: list[DeliverySeen] = field(default_factory=list)
    letter: DeadLetter | None = None
    unseen: list[TopicPartition] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    @property
    def is_found(self) -> bool:
        """Whether anything is left of it anywhere."""
        return self.is_there or bool(self.frames or self.deliveries or self.letter)


@dataclass(frozen=True, slots=True)
class Tracer:
    """Follows messages of one mesh.

    Attributes:
        last: So many of the newest records of each partition are looked at; None: those among
            which the message can be.
    """

    topology: Topology
    kafka: Mapping[str, KafkaCluster]
    last: int | None = None

    def find(self, text: str) -> Ingress:
        """Return where a message entered the mesh.

        Raises:
            ConfigError: The text is no identity, or of no topic of this mesh.
        """
        topic, numbers = _parsed(text)
        place = self._ingress_of(topic)
        if place is None:
            text = f"{topic!r} is no ingress topic of this mesh: {FORMS}"
            raise wrong_input("ID", text, code="UNKNOWN_TOPIC")
        node, name, topic_id, message_class = place
        if numbers[0] >= (count := self.topology.nodes[node].partitions):
            text = f"{name} has partitions 0 to {count - 1}, and not {numbers[0]}"
            raise wrong_input("ID", text, code="UNKNOWN_MESSAGE")
        identity = MessageIdentity(topic_id, *numbers)
        return Ingress(node, TopicPartition(name, numbers[0]), identity, message_class)

    def _ingress_of(self, topic: str) -> tuple[str, str, str, MessageClass] | None:
        """Return (node, topic, topic id, class) for a topic's name or id.

        Raises:
            TransportError: It is not known, and one of those that could know it does not answer.
        """
        names = TopicNames(self.topology.prefix)
        known = {
            names.ingress(node, one): (node, one)
            for node in self.topology.nodes
            for one in MessageClass
        }
        wanted: dict[str, list[str]] = {}
        for name in [topic] if topic in known else known:
            wanted.setdefault(self.topology.nodes[known[name][0]].kafka, []).append(name)
        silent: TransportError | None = None
        for kafka, listed in wanted.items():
            try:
                found = self.kafka[kafka].admin().describe(listed)
            except TransportError as error:
                silent = error  # another one may have it
                continue
            for name, info in found.items():
                if topic in (name, info.topic_id.hex()):
                    node, message_class = known[name]
                    return node, name, info.topic_id.hex(), message_class
        if silent is not None:
            raise silent
        return None

    def trace(self, ingress: Ingress) -> Trace:
        """Follow a message from its ingress to every endpoint.

        What Kafka clusters on the way hold that do not answer is left out, and its nodes named.

        Raises:
            TransportError: The Kafka cluster where it entered does not answer.
        """
        trace = Trace(ingress)
        self._read_ingress(trace)
        search = self._follow(trace, self.last)
        is_found = bool(trace.frames or trace.deliveries)
        if not is_found and trace.is_routed and self.last is None and not search.has_earlier:
            # Its publisher's clock may be far off.
            self._follow(trace, SCANNED_MAX)
        if not trace.frames and not trace.deliveries:
            self._read_letters(trace)
        return trace

    def _follow(self, trace: Trace, last: int | None) -> Search:
        ingress = trace.ingress
        trace.unseen.clear()
        trace.unknown.clear()
        search = Search(ingress.identity)
        edge = [_Arrival(ingress.node, ingress.place.partition, trace.created_ms)]
        visited = {ingress.node: None}
        while edge:
            at = edge.pop(0)
            try:
                deliveries, frames = self._passed(trace, at, search, last)
            except TransportUnavailableError:
                if at.node == ingress.node:
                    raise
                trace.unknown.append(at.node)
                continue
            trace.deliveries += deliveries
            for frame in frames:
                trace.frames.append(frame)
                if frame.target not in visited:
                    visited[frame.target] = None
                    edge.append(_Arrival(frame.target, frame.place.partition, frame.appended_ms))
        return search

    def _cluster(self, node: str) -> KafkaCluster:
        return self.kafka[self.topology.nodes[node].kafka]

    def _read_ingress(self, trace: Trace) -> None:
        ingress = trace.ingress
        place, offset = ingress.place, ingress.identity.offset
        kafka = self._cluster(ingress.node)
        names, lanes = TopicNames(self.topology.prefix), self.topology.nodes[ingress.node].lanes
        positions = read_positions(kafka, names.progress(ingress.node), 2 * lanes)
        trace.is_routed = positions.get(place, -1) > offset
        start, end = kafka.admin().starts([place]), kafka.admin().stable_ends([place])
        trace.end = end.get(place, 0)
        if not start.get(place, 0) <= offset < trace.end:
            return
        for record in read_range(kafka, {place: offset}, {place: offset + 1}, name="trace"):
            trace.is_there = True
            value = record.value()
            trace.size = None if value is None else len(value)
            trace.created_ms = record.timestamp()[1]
            for name, content in headers_of(record):
                if name == SUBJECT_HEADER:
                    trace.subject = (content or b"").decode(errors="replace")

    def _passed(
        self, trace: Trace, at: _Arrival, search: Search, last: int | None
    ) -> tuple[Sequence[DeliverySeen], Sequence[FrameSeen]]:
        """Return deliveries and frames that a node made of the message, in one reading."""
        kafka = self._cluster(at.node)
        outboxes = self._outboxes(trace, at.node, at.partition)
        endpoints = self._endpoints(at.node, at.partition)
        ends = kafka.admin().stable_ends([*endpoints, *outboxes])
        if last is None and at.ms is not None and trace.created_ms is not None:
            begins = {
                **kafka.admin().since(list(endpoints), trace.created_ms),
                **kafka.admin().since(list(outboxes), at.ms - CLOCKS_MS),
            }
            until = {
                place: min(ends.get(place, 0), begin + SHORT_MAX) for place, begin in begins.items()
            }
        else:
            starts, count = kafka.admin().starts(list(ends)), last or SCANNED_MAX
            begins = {place: max(start, ends[place] - count) for place, start in starts.items()}
            until = {place: ends[place] for place in starts}
            trace.unseen += [place for place, start in starts.items() if begins[place] > start]
        is_over = search.is_over if last is None else None
        deliveries: list[DeliverySeen] = []
        frames: list[FrameSeen] = []
        for record in read_range(kafka, begins, until, name="trace", until=is_over):
            place = TopicPartition(record.topic(), record.partition())
            if place in outboxes:
                if (header := search.frame(record)) is not None:
                    frames.append(_frame(at.node, outboxes[place], place, record, header))
            elif (message := search.delivery(record)) is not None:
                name, offset = endpoints[place], record.offset()
                deliveries.append(DeliverySeen(at.node, name, place, offset, message.path))
        left = [place for place, end in until.items() if end < ends.get(place, 0)]
        trace.unseen += [place for place in left if place not in search.passed]
        # Partitions are read side by side: the order of the walk is made again.
        order = {place: number for number, place in enumerate([*endpoints, *outboxes])}
        deliveries.sort(key=lambda one: (order[one.place], one.offset))
        frames.sort(key=lambda one: (order[one.place], one.offset))
        return deliveries, frames

    def _outboxes(self, trace: Trace, node: str, partition: int) -> Mapping[TopicPartition, str]:
        names, declared = TopicNames(self.topology.prefix), self.topology.nodes[node]
        message_class = trace.ingress.message_class
        return {
            TopicPartition(
                names.outbox(node, neighbour, message_class), partition % declared.partitions
            ): neighbour
            for neighbour in self.topology.neighbours(node)
            if self.topology.sends(node, neighbour)
        }

    def _endpoints(self, node: str, partition: int) -> Mapping[TopicPartition, str]:
        names, declared = TopicNames(self.topology.prefix), self.topology.nodes[node]
        # Also of endpoints that nobody subscribes any more: what came to them is still there.
        beginning = names.endpoint(node, "")
        found = sorted(self._cluster(node).admin().named(beginning))
        return {
            TopicPartition(topic, partition % declared.partitions): topic[len(beginning) :]
            for topic in found
            if name_fault(topic[len(beginning) :]) is None
        }

    def _read_letters(self, trace: Trace) -> None:
        ingress = trace.ingress
        names, lanes = TopicNames(self.topology.prefix), self.topology.nodes[ingress.node].lanes
        topic, kafka = names.dead_letters(ingress.node), self._cluster(ingress.node)
        count = self.last or SCANNED_MAX
        wanted = (ingress.place.topic, ingress.place.partition, ingress.identity.offset)
        for partition in range(2 * lanes):
            place = TopicPartition(topic, partition)
            for letter in map(header_of, read_logs(kafka, [place], most=count, name="trace")):
                if letter and (letter.topic, letter.partition, letter.offset) == wanted:
                    trace.letter = letter


def _parsed(text: str) -> tuple[str, tuple[int, int, int]]:
    """Return topic, and (partition, generation, offset), of an identity as text."""
    topic, *written = text.split("/")
    numbers = [
        int(one) for one in written if one.isdecimal() and one.isascii() and len(one) <= DIGITS_MAX
    ]
    if not topic or len(numbers) != len(written) or len(numbers) not in (2, 3):
        raise wrong_input("ID", f"{text!r} is no message: {FORMS}", code="UNKNOWN_MESSAGE")
    generation = numbers[1] if len(numbers) == 3 else 0
    return topic, (numbers[0], generation, numbers[-1])


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
