"""Guaranteed messages in topics that a change would delete. Spec: DESIGN 4.4, DESIGN 6, K28."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mesh.errors import TransportError
from mesh.model.frames import MessageClass
from mesh.model.topology import Topology
from mesh.model.words import LinkWord
from mesh.operate.endpoints.waiting import waiting_behind
from mesh.operate.status import link_state
from mesh.transport.port import KafkaCluster, TopicPartition
from mesh.view.lane_reports import read_report
from mesh.view.mesh_view import MeshView, RunningMesh


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A topic with guaranteed messages that its reader has not passed.

    Attributes:
        kafka, topic: Their location.
        reader: The node that should read them.
        records: Records that wait; None if its Kafka cluster does not say.
        is_read: Whether the reader reads there now, so that they will be gone soon.
    """

    kafka: str
    topic: str
    reader: str
    records: int | None
    is_read: bool


def unread_in(mesh: RunningMesh, topics: Sequence[str]) -> Sequence[Unread]:
    """Return which of these topics hold unread guaranteed messages, by topic.

    Those that hold no guaranteed messages are ignored.
    """
    found: list[Unread] = []
    for topic, sender, reader in _guaranteed(mesh.topology):
        if topic not in topics:
            continue
        owner = sender or reader
        records: int | None = None
        try:
            known = _positions(mesh, sender, reader)
            records = _count(mesh.home_of(owner), topic, known)
        except TransportError:
            pass  # reported as unknown
        if records != 0:
            is_known = records is not None
            is_read = is_known and mesh.beats[reader] and _reads(mesh.view, reader, sender)
            kafka = mesh.topology.nodes[owner].kafka
            found.append(
                Unread(kafka=kafka, topic=topic, reader=reader, records=records, is_read=is_read)
            )
    return found


def _guaranteed(topology: Topology) -> Iterator[tuple[str, str, str]]:
    """Yield (topic, sender, reader); clients, which have no name, send to an ingress."""
    names = topology.names
    for node in topology.nodes:
        yield names.ingress(node, MessageClass.GUARANTEED), "", node
        for neighbour in topology.neighbours(node):
            yield names.outbox(node, neighbour, MessageClass.GUARANTEED), node, neighbour


def _count(
    kafka: KafkaCluster, topic: str, known: Mapping[TopicPartition, tuple[bytes, int]]
) -> int:
    """Return how much waits in all existing partitions; nothing of a recreated topic was read.

    Records that Kafka has acknowledged to others may follow what an open transaction hides.
    """
    admin = kafka.admin()
    info = admin.describe([topic]).get(topic)
    if info is None:
        return 0
    places = TopicPartition.all_of(topic, info.partitions)
    passed = {at: offset for at, (id_, offset) in known.items() if id_ == info.topic_id}
    stable, ends = admin.stable_ends(places), admin.ends(places)
    shown = {at: max(stable.get(at, end), passed.get(at, 0)) for at, end in ends.items()}
    hidden = sum(max(0, end - shown[at]) for at, end in ends.items())
    return waiting_behind(kafka, passed, places).count + hidden


def _positions(
    mesh: RunningMesh, sender: str, reader: str
) -> Mapping[TopicPartition, tuple[bytes, int]]:
    """Return a reader's position: neighbours report it, for clients the node's progress has it."""
    if sender:
        link = mesh.view.nodes[reader].link_states.get(sender)
        listed = link.positions if link is not None else ()
        return {
            TopicPartition(one.topic, one.partition): (one.topic_id, max(0, one.needed))
            for one in listed
        }
    read = read_report(mesh.topology, mesh.kafka, reader).read
    return {at: (one.topic_id, max(0, read.reached(at))) for at, one in read.sources.items()}


def _reads(view: MeshView, reader: str, sender: str) -> bool:
    seen = view.nodes[reader]
    if not sender:
        return seen.is_ready
    is_paused = any(key.neighbour == sender for key in seen.pauses)
    return link_state(seen, sender) == LinkWord.UP and not is_paused
