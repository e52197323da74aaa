"""Drills: faults planted in the records of a running mesh, from outside, for the auditor to find.

No worker takes part, and no application is touched: a drill publishes two messages that nobody
wants, makes an endpoint of its own, and writes there what a broken node would have written. Only
`loss` writes beside it, to a ledger. Spec: DESIGN 7; docs/audit.md says what finds each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b

from mesh.codec.deliveries import encode_delivery
from mesh.codec.keys import subscription_key
from mesh.codec.state import decode_ledger, encode_ledger
from mesh.codec.subscriptions import encode_subscription
from mesh.config.nearest import check_node
from mesh.core.ways import DeadEnd, way_between
from mesh.errors import ProtocolError, TransportUnavailableError, wrong_input
from mesh.model.control import Subscription
from mesh.model.frames import Delivery, MessageClass, SourcePartition
from mesh.model.headers import MESH_HEADER, SUBJECT_HEADER
from mesh.model.state import Cut, Ledger
from mesh.model.subject import matches
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.port import KafkaCluster, Record, TopicPartition, Writer
from mesh.transport.reading import read_logs, read_range, read_tail
from mesh.view.lane_reports import read_positions
from mesh.view.mesh_view import MeshView

WAIT_S = 60.0
"""How long the mesh may take to pass two messages, and to make an endpoint, in seconds."""

STARTS_WITH = "drill-"
"""Endpoints of drills begin so."""

_KEY = b"drill"
_TAIL = 20


class Drill(StrEnum):
    """What is planted."""

    LOOP = "loop"
    DUPLICATE = "duplicate"
    LOSS = "loss"
    DISORDER = "disorder"
    UNPLANNED_PATH = "unplanned-path"
    WRONG_RECIPIENT = "wrong-recipient"
    FORGED_ORIGIN = "forged-origin"
    CORRUPT = "corrupt"

    @property
    def finding(self) -> str:
        """Kind of the finding that tells of it."""
        return {"loss": "missing", "wrong-recipient": "unexpected"}.get(self.value, self.value)

    @property
    def text(self) -> str:
        """What it does, in a line."""
        return _TEXTS[self]

    @property
    def endpoint(self) -> str:
        """Name of its endpoint."""
        return f"{STARTS_WITH}{self.value}"

    def subject(self, number: int) -> str:
        """Return the subject of its messages, another for each drill."""
        return f"drill/{self.value}/{number}"


_TEXTS = {
    Drill.LOOP: "a message whose path leads through a node twice",
    Drill.DUPLICATE: "a message that an endpoint gets twice",
    Drill.LOSS: "a message that a lane says it knows to be wanted, and that does not come",
    Drill.DISORDER: "a message that comes after a later one of its publisher",
    Drill.UNPLANNED_PATH: "a message that came by a way that no zone allows",
    Drill.WRONG_RECIPIENT: "a message that an endpoint gets and did not ask for",
    Drill.FORGED_ORIGIN: "a message of a topic that does not exist (found after a minute)",
    Drill.CORRUPT: "a message with another payload than was published",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """What a drill has written.

    Attributes:
        drill: Which one.
        endpoint: `node/name` of its endpoint.
        message: The message that it is about, as `mesh trace` takes it.
        records: The forged records: topic, partition and offset.
        at_ms: When the last was acknowledged, by the monotonic clock.
    """

    drill: Drill
    endpoint: str
    message: str
    records: Sequence[tuple[TopicPartition, int]]
    at_ms: int

    @property
    def evidence(self) -> Sequence[str]:
        """The forged records, as findings spell them."""
        return [f"{at.topic}/{at.partition}@{offset}" for at, offset in self.records]

    def is_told_by(self, finding: Mapping[str, object]) -> bool:
        """Say whether a finding tells of it, and not of an earlier drill of its kind."""
        if finding.get("kind") != self.drill.finding or finding.get("endpoint") != self.endpoint:
            return False
        ids, evidence = finding.get("ids"), finding.get("evidence")
        is_named = isinstance(ids, list) and self.message in ids
        shown = [str(one) for one in evidence] if isinstance(evidence, list) else []
        return is_named or any(
            _covers(text, at, offset) for text in shown for at, offset in self.records
        )


def _covers(evidence: str, at: TopicPartition, offset: int) -> bool:
    """Say whether evidence, `topic/partition@first-last`, names a record."""
    place, _, span = evidence.rpartition("@")
    first, _, last = span.partition("-")
    is_there = place == f"{at.topic}/{at.partition}"
    if not is_there or not (first.isdecimal() and (last or first).isdecimal()):
        return False
    return int(first) <= offset <= int(last or first)


def is_of_drill(finding: Mapping[str, object]) -> bool:
    """Say whether a finding tells of a drill."""
    return str(finding.get("endpoint") or "").partition("/")[2].startswith(STARTS_WITH)


def refuse_unless_allowed(topology: Topology) -> None:
    """Refuse drills where the topology in force does not allow them.

    Raises:
        ConfigError: It does not.
    """
    if not topology.allows_drills:
        message = (
            "this mesh allows no drills; put `drills: allowed` under spec in force, on a mesh that "
            "nobody depends on"
        )
        raise wrong_input("spec.drills", message, code="NO_DRILLS")


def refuse_if_wanted(drill: Drill, view: MeshView) -> None:
    """Refuse a drill whose messages an application would get.

    Raises:
        ConfigError: An endpoint wants them.
    """
    for node, seen in view.nodes.items():
        for endpoint, filter_ in seen.subscriptions:
            if not endpoint.startswith(STARTS_WITH) and matches(filter_, drill.subject(0)):
                message = (
                    f"{node}/{endpoint} wants {filter_!r}, so it would get what the drill "
                    "publishes; drill where nobody wants drill/>"
                )
                raise wrong_input("NAME", message, code="WANTED")


def ends_of(topology: Topology, source: str | None, target: str | None) -> tuple[str, str]:
    """Return where a drill publishes and where its endpoint is; a neighbour where nobody says.

    Raises:
        ConfigError: A node is unknown, or nothing gets from the one to the other.
    """
    for where, node in (("--from", source), ("--to", target)):
        if node is not None:
            check_node(topology, node, where)
    pairs = [
        (one, other)
        for one in ([source] if source else sorted(topology.nodes))
        for other in ([target] if target else topology.neighbours(one))
        if one != other and not isinstance(way_between(topology, one, other), DeadEnd)
    ]
    if not pairs:
        text = "a drill needs two nodes that messages get between"
        raise wrong_input("--from, --to", text, code="NO_WAY")
    return pairs[0]


@dataclass(frozen=True, slots=True)
class Spare:
    """A message that was published and routed to nobody.

    Attributes:
        place, offset: Where it stands.
        source: The same by the broker's id of the topic.
        subject: What it was published to.
        record: As the broker gives it.
    """

    place: TopicPartition
    offset: int
    source: SourcePartition
    subject: str
    record: Record


@dataclass(frozen=True, slots=True)
class Forged:
    """A delivery to be written: of a message, by a path, and what differs from the message."""

    spare: Spare
    path: tuple[str, ...]
    payload: bytes | None = None
    source: SourcePartition | None = None


def forgeries(
    drill: Drill, spares: Sequence[Spare], path: tuple[str, ...], mark: str
) -> Sequence[Forged]:
    """Return the deliveries that a drill writes, in order; none for `loss`.

    Args:
        drill: Which one.
        spares: Two messages, in the order in which they were published.
        path: The way from where they were published to the endpoint.
        mark: Differs from drill to drill.
    """
    first, second = spares
    match drill:
        case Drill.LOSS:
            return ()
        case Drill.DUPLICATE:
            return Forged(first, path), Forged(first, path)
        case Drill.DISORDER:
            return Forged(second, path), Forged(first, path)
        case Drill.LOOP:
            return (Forged(first, (*path, *path[-2:])),)
        case Drill.UNPLANNED_PATH:
            return (Forged(first, path[-1:]),)
        case Drill.CORRUPT:
            return (Forged(first, path, payload=b"swapped by a drill"),)
        case Drill.FORGED_ORIGIN:
            topic_id = blake2b(mark.encode(), digest_size=16).digest()
            source = SourcePartition(topic_id, first.source.partition)
            return (Forged(first, path, source=source),)
        case Drill.WRONG_RECIPIENT:
            return (Forged(first, path),)


@dataclass(frozen=True, slots=True)
class Planter:
    """Plants drills in one mesh.

    Attributes:
        topology: What is in force; it allows drills.
        kafka: Clients of its Kafka clusters.
        uuids: Node -> its uuid, as it tells on its control topic.
        now_ms: Monotonic clock.
        pause: Lets time pass, in seconds.
    """

    topology: Topology
    kafka: Mapping[str, KafkaCluster]
    uuids: Mapping[str, str]
    now_ms: Callable[[], int]
    pause: Callable[[float], object]

    def plant(self, drill: Drill, source: str, target: str) -> Planted:
        """Write what the drill is about, and return it; its subscription stays until `clear`.

        Args:
            drill: Which one.
            source: Where its messages are published.
            target: Where its endpoint is; messages get there from the source.

        Raises:
            TransportError: Kafka did not take a record, or the mesh did not do its part in time.
        """
        names = TopicNames(self.topology.prefix)
        home, far = self._home(source), self._home(target)
        near_writer, far_writer = home.writer("drill"), far.writer("drill")
        try:
            spares = self._publish(near_writer, source, drill)
            if drill is Drill.LOSS:
                forged = self._forge_cut(near_writer, spares[1], source, target)
            is_wrong = drill is Drill.WRONG_RECIPIENT
            wanted = "drill/something-else" if is_wrong else spares[0].subject
            self._subscribe(far_writer, target, drill, wanted)
            if drill is not Drill.LOSS:
                topic = names.endpoint(target, drill.endpoint)
                forged = self._deliver(far_writer, drill, spares, topic, self._path(source, target))
        finally:
            near_writer.close()
            far_writer.close()
        first = spares[1] if drill is Drill.LOSS else spares[0]
        return Planted(
            drill=drill,
            endpoint=f"{target}/{drill.endpoint}",
            message=f"{first.place.topic}/{first.place.partition}/0/{first.offset}",
            records=forged,
            at_ms=self.now_ms(),
        )

    def clear(self, drill: Drill, target: str) -> None:
        """End what a drill subscribed, now or ever; its endpoint's topic stays, to be looked into.

        Raises:
            TransportError: Kafka did not take it.
        """
        home = self._home(target)
        place = TopicPartition(TopicNames(self.topology.prefix).clients(target), 0)
        newest = {record.key() or b"": record.value() for record in read_logs(home, [place])}
        begin = f"{drill.endpoint} ".encode()
        writer = home.writer("drill")
        try:
            for key, value in newest.items():
                if key.startswith(begin) and value is not None:
                    writer.produce(place.topic, None, key, 0)
            _flush(writer, place.topic)
        finally:
            writer.close()

    def _home(self, node: str) -> KafkaCluster:
        return self.kafka[self.topology.nodes[node].kafka]

    def _path(self, source: str, target: str) -> tuple[str, ...]:
        way = way_between(self.topology, source, target)
        if isinstance(way, DeadEnd):
            text = f"nothing gets from {source} to {target}"
            raise wrong_input("--from, --to", text, code="NO_WAY")
        return tuple(way.nodes)

    def _publish(self, writer: Writer, node: str, drill: Drill) -> Sequence[Spare]:
        """Publish two messages to a subject of their own, and wait until the node has passed them.

        Whoever has just ended a drill of the same name may still be known to want that one's.
        """
        names, home = TopicNames(self.topology.prefix), self._home(node)
        topic = names.ingress(node, MessageClass.GUARANTEED)
        place = TopicPartition(topic, 0)
        before = home.admin().ends([place]).get(place)
        if before is None:
            raise TransportUnavailableError(f"topic {topic} does not exist: start node {node}")
        subject = drill.subject(before)
        for text in (b"first", b"second"):
            writer.produce(topic, text, _KEY, 0, headers=[(SUBJECT_HEADER, subject.encode())])
        _flush(writer, topic)
        end = home.admin().stable_ends([place])[place]
        topic_id = home.admin().describe([topic])[topic].topic_id
        found = [
            Spare(place, record.offset(), SourcePartition(topic_id, 0), subject, record)
            for record in read_range(home, {place: before}, {place: end}, name="drill")
            if record.key() == _KEY
        ][-2:]
        progress, lanes = names.progress(node), self.topology.nodes[node].lanes
        self._await(
            lambda: read_positions(home, progress, 2 * lanes).get(place, 0) > found[-1].offset,
            f"{node} to pass two messages of {place}",
        )
        return found

    def _subscribe(self, writer: Writer, node: str, drill: Drill, filter_: str) -> None:
        """Make the endpoint, and wait until its topic is there."""
        names = TopicNames(self.topology.prefix)
        clients, topic = names.clients(node), names.endpoint(node, drill.endpoint)
        key = subscription_key(drill.endpoint, filter_)
        writer.produce(clients, encode_subscription(Subscription()), key, 0)
        _flush(writer, clients)
        admin = self._home(node).admin()
        self._await(lambda: topic in admin.describe([topic]), f"{node} to make {topic}")

    def _deliver(
        self,
        writer: Writer,
        drill: Drill,
        spares: Sequence[Spare],
        topic: str,
        path: tuple[str, ...],
    ) -> Sequence[tuple[TopicPartition, int]]:
        kafka = self._home(path[-1])
        place = TopicPartition(topic, 0)
        before = kafka.admin().ends([place])[place]
        for one in forgeries(drill, spares, path, f"{topic}@{before}"):
            record = one.spare.record
            delivery = Delivery(
                message_class=MessageClass.GUARANTEED,
                path=one.path,
                source=one.source or one.spare.source,
                generation=0,
                offset=one.spare.offset,
            )
            subject = one.spare.subject.encode()
            headers = [(SUBJECT_HEADER, subject), (MESH_HEADER, encode_delivery(delivery))]
            payload = record.value() if one.payload is None else one.payload
            at_ms = record.timestamp()[1]
            writer.produce(topic, payload, record.key(), 0, timestamp=at_ms, headers=headers)
        _flush(writer, topic)
        end = kafka.admin().ends([place])[place]
        return [(place, offset) for offset in range(before, end)]

    def _forge_cut(
        self, writer: Writer, spare: Spare, source: str, target: str
    ) -> Sequence[tuple[TopicPartition, int]]:
        """Have a lane say that it knew of the subscription that comes next. Spec: K25."""
        names, home, far = TopicNames(self.topology.prefix), self._home(source), self._home(target)
        clients = TopicPartition(names.clients(target), 0)
        place = TopicPartition(names.ledger(source), 0)
        cut = Cut(
            topic=spare.place.topic,
            topic_id=spare.source.topic_id,
            partition=spare.place.partition,
            position=spare.offset,
            uuid=self.uuids[target],
            clients_offset=far.admin().ends([clients])[clients],
        )
        ledger = _newest_ledger(home, place) or Ledger(node=source, lane=0, lane_epoch=0)
        ledger = Ledger(node=source, lane=0, lane_epoch=ledger.lane_epoch, cuts=[cut])
        before = home.admin().ends([place])[place]
        writer.produce(place.topic, encode_ledger(ledger), None, 0)
        _flush(writer, place.topic)
        return [(place, before)]

    def _await(self, is_done: Callable[[], bool], what: str) -> None:
        deadline_ms = self.now_ms() + int(WAIT_S * 1000)
        while not is_done():
            if self.now_ms() > deadline_ms:
                raise TransportUnavailableError(f"waited {WAIT_S:.0f} s for {what}")
            self.pause(0.1)


def _newest_ledger(kafka: KafkaCluster, place: TopicPartition) -> Ledger | None:
    newest = None
    for record in read_tail(kafka, place, _TAIL):
        try:
            newest = decode_ledger(record.value() or b"")
        except ProtocolError:
            continue
    return newest


def _flush(writer: Writer, topic: str) -> None:
    if writer.flush():
        raise TransportUnavailableError(f"Kafka did not take a record for {topic}")
