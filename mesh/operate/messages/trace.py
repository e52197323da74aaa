"""One message followed through ingress, frames on outboxes and deliveries. Spec: K3, K9."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field

from mesh.errors import TransportError, wrong_input
from mesh.model.counted import numbered
from mesh.model.frames import MessageClass
from mesh.model.record_headers import SUBJECT_HEADER
from mesh.model.state import DeadLetter
from mesh.model.topology import Topology
from mesh.operate.messages.dead_letters import header_of
from mesh.operate.messages.steps import DeliverySeen, FrameSeen, Ingress, RecordedArrival, Step
from mesh.operate.messages.way import SCANNED_MAX, Way
from mesh.transport.headers import headers_of
from mesh.transport.port import KafkaCluster, TopicPartition
from mesh.transport.reading import read_logs, read_range
from mesh.view.lane_reports import read_report
from mesh.view.messages import MessageIdentity

AT_ONCE = 8
"""How many requests and reads of one trace are under way at a time."""

DIGITS_MAX, NUMBER_MAX = 19, (1 << 63) - 1
"""Limits of a partition, generation or offset: Kafka's number range."""

FORMS = "write TOPIC/PARTITION/OFFSET of the ingress record, or the id that `mesh subscribe` prints"


@dataclass(slots=True)
class Trace:
    """What was found of one message.

    Attributes:
        ingress: Where it entered.
        subject: From its record; None if the record is gone or has none.
        size: Bytes of its payload; None if the record is gone or it is a tombstone.
        created_ms: The publisher's time; None if the record is gone.
        is_there: Whether the ingress record is still there.
        is_routed: Whether the origin node has passed it; None for a moment in the past, for which
            that is unknown.
        end: Offset that the next message of its ingress partition gets.
        frames: On outboxes, in the order of the walk.
        deliveries: To endpoints that have a topic.
        letter: Why it was refused, or None.
        letter_ms: When that was written, by the broker's clock.
        unseen: Partitions that may hold more in records that were not examined.
        unknown: Nodes that it reached and whose topics are unknown: their Kafka cluster does not
            answer.
    """

    ingress: Ingress
    subject: str | None = None
    size: int | None = None
    created_ms: int | None = None
    is_there: bool = False
    is_routed: bool | None = False
    end: int = 0
    frames: list[FrameSeen] = field(default_factory=list)
    deliveries: list[DeliverySeen] = field(default_factory=list)
    letter: DeadLetter | None = None
    letter_ms: int | None = None
    unseen: list[TopicPartition] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    @property
    def came_of_it(self) -> bool:
        """Whether any frame or delivery was made of it."""
        return bool(self.frames or self.deliveries)

    @property
    def is_found(self) -> bool:
        """Whether anything is left of it anywhere."""
        return self.is_there or self.came_of_it or self.letter is not None


@dataclass(frozen=True, slots=True)
class Tracer:
    """Follows messages of one mesh.

    Attributes:
        last: How many of the newest records of each partition are examined; None: those among
            which the message can be.
    """

    topology: Topology
    kafka: Mapping[str, KafkaCluster]
    last: int | None = None

    def find(self, text: str) -> Ingress:
        """Return where a message entered the mesh.

        Raises:
            ConfigError: The text is not an identity, or not of a topic of this mesh.
        """
        topic, numbers = parts_of_id(text)
        place = self._ingress_of(topic)
        if place is None:
            text = f"{topic!r} is not an ingress topic of this mesh: {FORMS}"
            raise wrong_input("ID", text, code="UNKNOWN_TOPIC")
        node, name, topic_id, message_class = place
        if numbers[0] >= (count := self.topology.nodes[node].partitions):
            text = f"{name} has {numbered(count, 'partition')}, and not {numbers[0]}"
            raise wrong_input("ID", text, code="UNKNOWN_MESSAGE")
        identity = MessageIdentity(topic_id, *numbers)
        return Ingress(node, TopicPartition(name, numbers[0]), identity, message_class)

    def _ingress_of(self, topic: str) -> tuple[str, str, str, MessageClass] | None:
        """Return (node, topic, topic id, class) for a topic's name or id.

        Raises:
            TransportError: It is unknown, and a Kafka cluster that might know it does not answer.
        """
        known = {
            self.topology.names.ingress(node, one): (node, one)
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
                silent = error  # another Kafka cluster may have it
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

        Kafka clusters on the way that do not answer are left out, and their nodes named.

        Raises:
            TransportError: The Kafka cluster where it entered does not answer.
        """
        trace = Trace(ingress)
        self._read_ingress(trace)
        with ThreadPoolExecutor(AT_ONCE, "trace") as pool:
            has_earlier = self._follow(trace, self.last, pool)
            # Its copies were written together with the position of its source.
            trace.is_routed = trace.came_of_it or self._is_routed(ingress)
            is_lost = trace.is_routed and not trace.came_of_it
            if is_lost and self.last is None and not has_earlier:
                # Its publisher's clock may be far off.
                self._follow(trace, SCANNED_MAX, pool)
        if not trace.came_of_it:
            self._read_letters(trace)
        return trace

    def _follow(self, trace: Trace, last: int | None, pool: Executor) -> bool:
        """Follow it link by link; return whether an earlier message was seen on its way."""
        ingress = trace.ingress
        trace.unseen.clear()
        trace.unknown.clear()
        way = Way(self.topology, self.kafka, ingress, trace.created_ms, last, pool)
        offset = ingress.identity.offset
        edge = [RecordedArrival(ingress.node, ingress.place, offset, trace.created_ms)]
        visited = {ingress.node: None}
        while edge:
            steps, edge = way.steps(edge), []
            for at, step in steps.items():
                if not isinstance(step, Step):
                    if at.node == ingress.node:
                        raise step
                    trace.unknown.append(at.node)
                    continue
                trace.deliveries += step.deliveries
                trace.frames += step.frames
                trace.unseen += step.unseen
                for frame in step.frames:
                    if frame.target not in visited:
                        visited[frame.target] = None
                        came_ms = frame.appended_ms
                        edge.append(
                            RecordedArrival(frame.target, frame.place, frame.offset, came_ms)
                        )
        return bool(way.search.early)

    def _read_ingress(self, trace: Trace) -> None:
        place, offset = trace.ingress.place, trace.ingress.identity.offset
        kafka = self.topology.home_of(trace.ingress.node, self.kafka)
        trace.end = kafka.admin().stable_ends([place]).get(place, 0)
        if offset >= trace.end:
            return
        for record in read_range(kafka, {place: offset}, {place: offset + 1}, name="trace"):
            trace.is_there = True
            value = record.value()
            trace.size = None if value is None else len(value)
            trace.created_ms = record.timestamp()[1]
            for name, content in headers_of(record):
                if name == SUBJECT_HEADER:
                    trace.subject = (content or b"").decode(errors="replace")

    def _is_routed(self, ingress: Ingress) -> bool:
        """Return whether the origin node has passed it, according to its progress topic."""
        positions = read_report(self.topology, self.kafka, ingress.node).positions
        return positions.get(ingress.place, -1) > ingress.identity.offset

    def _read_letters(self, trace: Trace) -> None:
        ingress = trace.ingress
        topic = self.topology.names.dead_letters(ingress.node)
        kafka = self.topology.home_of(ingress.node, self.kafka)
        count = self.last or SCANNED_MAX
        wanted = (ingress.place.topic, ingress.place.partition, ingress.identity.offset)
        declared = self.topology.nodes[ingress.node]
        for place in TopicPartition.all_of(topic, declared.lane_partitions):
            for record in read_logs(kafka, [place], most=count, name="trace"):
                letter = header_of(record)
                if letter and (letter.topic, letter.partition, letter.offset) == wanted:
                    trace.letter, trace.letter_ms = letter, record.timestamp()[1]


def parts_of_id(text: str, where: str = "ID") -> tuple[str, tuple[int, int, int]]:
    """Return topic, and (partition, generation, offset), of a message's id as text.

    Args:
        text: The id; a missing generation means 0.
        where: What it was given as, for problems.

    Raises:
        ConfigError: It is not one.
    """
    topic, *written = text.split("/")
    numbers = [
        int(one) for one in written if one.isdecimal() and one.isascii() and len(one) <= DIGITS_MAX
    ]
    are_whole = len(numbers) == len(written) and all(one <= NUMBER_MAX for one in numbers)
    if not topic or not are_whole or len(numbers) not in (2, 3):
        raise wrong_input(where, f"{text!r} is not a message: {FORMS}", code="UNKNOWN_MESSAGE")
    generation = numbers[1] if len(numbers) == 3 else 0
    return topic, (numbers[0], generation, numbers[-1])
