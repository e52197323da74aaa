"""Plants the records of a drill in the topics of a running mesh, and removes them again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mesh.core.ways import DeadEnd, way_between
from mesh.errors import ProtocolError, TransportUnavailableError, wrong_input
from mesh.model.control import Subscription
from mesh.model.frames import Delivery, MessageClass, SourcePartition
from mesh.model.record_headers import MESH_HEADER, SUBJECT_HEADER
from mesh.model.state import Cut, Ledger
from mesh.operate.audit.drills import DrillKind, Planted, Spare, forgeries
from mesh.transport.port import KafkaCluster, TopicPartition, Writer
from mesh.transport.reading import read_logs, read_range, read_tail
from mesh.view.lane_reports import read_report
from mesh.view.mesh_view import RunningMesh
from mesh.wire.deliveries import encode_delivery
from mesh.wire.keys import subscription_key
from mesh.wire.state import decode_ledger, encode_ledger
from mesh.wire.subscriptions import encode_subscription

WAIT_S = 60.0
"""How long the mesh may take to pass two messages, and to create an endpoint, in seconds."""

_KEY = b"drill"
_TAIL = 20


@dataclass(frozen=True, slots=True)
class Planter:
    """Plants drills in one mesh.

    Attributes:
        mesh: The mesh; what is in force there allows drills.
    """

    mesh: RunningMesh

    def plant(self, drill: DrillKind, source: str, target: str) -> Planted:
        """Write the drill's records, and return the drill; its subscription stays until `clear`.

        Args:
            drill: Which one.
            source: Where its messages are published.
            target: Where its endpoint is; messages get there from the source.

        Raises:
            TransportError: Kafka did not accept a record, or the mesh did not do its part in time.
        """
        home, far = self.mesh.home_of(source), self.mesh.home_of(target)
        near_writer, far_writer = home.writer("drill"), far.writer("drill")
        try:
            spares = self._publish(near_writer, source, drill)
            if drill is DrillKind.LOSS:
                forged = self._forge_cut(near_writer, spares[1], source, target)
            is_wrong = drill is DrillKind.WRONG_RECIPIENT
            wanted = "drill/something-else" if is_wrong else spares[0].subject
            self._subscribe(far_writer, target, drill, wanted)
            if drill is not DrillKind.LOSS:
                topic = self.mesh.topology.names.endpoint(target, drill.endpoint)
                forged = self._deliver(far_writer, drill, spares, topic, self._path(source, target))
        finally:
            near_writer.close()
            far_writer.close()
        first = spares[1] if drill is DrillKind.LOSS else spares[0]
        return Planted(
            drill=drill,
            endpoint=f"{target}/{drill.endpoint}",
            message=f"{first.place.topic}/{first.place.partition}/0/{first.offset}",
            records=forged,
            at_ms=self.mesh.time.now_ms(),
        )

    def clear(self, drill: DrillKind, target: str) -> None:
        """End what a drill ever subscribed; its endpoint's topic stays, for inspection.

        Raises:
            TransportError: Kafka did not accept it.
        """
        home = self.mesh.home_of(target)
        place = TopicPartition(self.mesh.topology.names.clients(target), 0)
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

    def _path(self, source: str, target: str) -> tuple[str, ...]:
        way = way_between(self.mesh.topology, source, target)
        if isinstance(way, DeadEnd):
            text = f"nothing gets from {source} to {target}"
            raise wrong_input("--from, --to", text, code="NO_WAY")
        return tuple(way.nodes)

    def _publish(self, writer: Writer, node: str, drill: DrillKind) -> Sequence[Spare]:
        """Publish two messages to a subject of their own, and wait until the node has passed them.

        A node may still be known to want what an earlier drill of the same name requested.
        """
        names, home = self.mesh.topology.names, self.mesh.home_of(node)
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

        def is_passed() -> bool:
            positions = read_report(self.mesh.topology, self.mesh.kafka, node).positions
            return positions.get(place, 0) > found[-1].offset

        self._await(is_passed, f"{node} to pass two messages of {place}")
        return found

    def _subscribe(self, writer: Writer, node: str, drill: DrillKind, filter_: str) -> None:
        """Create the endpoint, and wait until its topic exists."""
        names = self.mesh.topology.names
        clients, topic = names.clients(node), names.endpoint(node, drill.endpoint)
        key = subscription_key(drill.endpoint, filter_)
        writer.produce(clients, encode_subscription(Subscription()), key, 0)
        _flush(writer, clients)
        admin = self.mesh.home_of(node).admin()
        self._await(lambda: topic in admin.describe([topic]), f"{node} to make {topic}")

    def _deliver(
        self,
        writer: Writer,
        drill: DrillKind,
        spares: Sequence[Spare],
        topic: str,
        path: tuple[str, ...],
    ) -> Sequence[tuple[TopicPartition, int]]:
        kafka = self.mesh.home_of(path[-1])
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
        """Have a lane state that it knew of the subscription that comes next. Spec: K25."""
        mesh, names = self.mesh, self.mesh.topology.names
        home, far = mesh.home_of(source), mesh.home_of(target)
        clients = TopicPartition(names.clients(target), 0)
        place = TopicPartition(names.ledger(source), 0)
        cut = Cut(
            topic=spare.place.topic,
            topic_id=spare.source.topic_id,
            partition=spare.place.partition,
            position=spare.offset,
            uuid=mesh.view.nodes[target].uuid,
            clients_offset=far.admin().ends([clients])[clients],
        )
        ledger = _newest_ledger(home, place) or Ledger(node=source, lane=0, lane_epoch=0)
        ledger = Ledger(node=source, lane=0, lane_epoch=ledger.lane_epoch, cuts=[cut])
        before = home.admin().ends([place])[place]
        writer.produce(place.topic, encode_ledger(ledger), None, 0)
        _flush(writer, place.topic)
        return [(place, before)]

    def _await(self, is_done: Callable[[], bool], what: str) -> None:
        if not self.mesh.time.wait_until(is_done, WAIT_S):
            raise TransportUnavailableError(f"waited {WAIT_S:.0f} s for {what}")


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
