"""The dead letters of a node: what was refused, lost to one target, or pushed out. Spec: R12."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mesh.errors import ProtocolError, wrong_input
from mesh.model.names import name_fault
from mesh.model.record_headers import MESH_HEADER, SUBJECT_HEADER
from mesh.model.state import DeadLetter
from mesh.model.topology import Topology
from mesh.transport.headers import headers_of
from mesh.transport.port import KafkaCluster, Record, TopicPartition, place_of
from mesh.transport.reading import read_logs, read_range
from mesh.wire.state import decode_dead_letter


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One dead letter.

    Attributes:
        place, offset: Its position.
        written_ms: When it was written, by the broker's clock.
        subject: Subject of the record, if it had exactly one; else empty.
        header: The content of its header, or None if that is unreadable.
        kept: Bytes of key, value and headers that are kept.
    """

    place: TopicPartition
    offset: int
    written_ms: int
    subject: str
    header: DeadLetter | None
    kept: int

    @property
    def size(self) -> int:
        """Bytes of key, value and headers of the record when it was refused."""
        if self.header is None:
            return self.kept
        return self.header.key_size + self.header.value_size + self.header.headers_size


def read_letters(
    topology: Topology,
    kafka: KafkaCluster,
    node: str,
    most: int,
    *,
    queue: str = "",
    at_ms: int | None = None,
) -> Iterator[Letter]:
    """Yield the newest dead letters of a node, at most so many offsets of each partition.

    For a past moment, yield those written by then that still exist: they stay for a week.

    Args:
        topology: The mesh.
        kafka: Kafka cluster of the node.
        node: The node.
        most: Offsets of each partition.
        queue: What consumers of this queue gave up, instead of what the node refused.
        at_ms: The moment, ms since 1970 by the broker's clock; None is now.

    Raises:
        TransportError: They cannot be read.
    """
    names, declared = topology.names, topology.nodes[node]
    topic = names.queue_letters(node, queue) if queue else names.dead_letters(node)
    count = declared.partitions if queue else declared.lane_partitions
    places = TopicPartition.all_of(topic, count)
    if at_ms is None:
        records = read_logs(kafka, places, most=most, name="letters")
    else:
        admin = kafka.admin()
        ends, starts = admin.since(places, at_ms + 1), admin.starts(places)
        begins = {place: max(starts.get(place, 0), end - most) for place, end in ends.items()}
        records = read_range(kafka, begins, ends, name="letters")
    for record in records:
        yield _letter(record)


def check_queue(topology: Topology, kafka: KafkaCluster, node: str, queue: str, where: str) -> None:
    """Refuse the name of a queue that a node does not have, and never had.

    Raises:
        ConfigError: The node has no topic for it.
        TransportError: Its Kafka cluster does not answer.
    """
    names = topology.names
    topics = (names.endpoint(node, queue), names.queue_letters(node, queue))
    if name_fault(queue) is not None or not kafka.admin().describe(topics):
        message = f"{node} has no queue {queue[:80]!r}; `mesh queue list` has all of them"
        raise wrong_input(where, message, code="UNKNOWN_QUEUE")


def _letter(record: Record) -> Letter:
    others = headers_of(record)[:-1]
    subjects = [value or b"" for name, value in others if name == SUBJECT_HEADER]
    return Letter(
        place=place_of(record),
        offset=record.offset(),
        written_ms=record.timestamp()[1],
        subject=subjects[0].decode(errors="replace") if len(subjects) == 1 else "",
        header=header_of(record),
        kept=len(record.key() or b"")
        + len(record.value() or b"")
        + sum(len(name) + len(value or b"") for name, value in others),
    )


def header_of(record: Record) -> DeadLetter | None:
    """Return the content of the last header of a dead letter, or None if that is unreadable."""
    *_, (name, content) = headers_of(record) or [("", None)]
    try:
        return decode_dead_letter(content or b"") if name == MESH_HEADER else None
    except ProtocolError:
        return None
