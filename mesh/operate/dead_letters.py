"""The dead letters of a node: what was refused, lost to one target, or pushed out. Spec: R12."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mesh.codec.state import decode_dead_letter
from mesh.errors import ProtocolError
from mesh.model.headers import MESH_HEADER, SUBJECT_HEADER
from mesh.model.state import DeadLetter
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.headers import headers_of
from mesh.transport.port import KafkaCluster, Record, TopicPartition
from mesh.transport.reading import read_logs


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One dead letter.

    Attributes:
        place, offset: Where it lies.
        subject: Of the record, as far as it had exactly one; else empty.
        told: What its header says, or None if nobody can read that.
        kept: Bytes of key, value and headers that are kept.
    """

    place: TopicPartition
    offset: int
    subject: str
    told: DeadLetter | None
    kept: int

    @property
    def size(self) -> int:
        """Bytes of key, value and headers of the record when it was refused."""
        if self.told is None:
            return self.kept
        return self.told.key_size + self.told.value_size + self.told.headers_size


def read_letters(
    topology: Topology, kafka: KafkaCluster, node: str, most: int, *, queue: str = ""
) -> Iterator[Letter]:
    """Yield the newest dead letters of a node, at most so many offsets of each partition.

    Args:
        topology: The mesh.
        kafka: Kafka cluster of the node.
        node: Whose.
        most: Offsets of each partition.
        queue: What consumers of this queue gave up, instead of what the node refused.

    Raises:
        TransportError: They cannot be read.
    """
    names, declared = TopicNames(topology.prefix), topology.nodes[node]
    topic = names.queue_letters(node, queue) if queue else names.dead_letters(node)
    partitions = declared.partitions if queue else 2 * declared.lanes
    places = [TopicPartition(topic, number) for number in range(partitions)]
    for record in read_logs(kafka, places, most=most, name="letters"):
        yield _letter(record)


def _letter(record: Record) -> Letter:
    headers = headers_of(record)
    *others, (name, content) = headers or [("", None)]
    told: DeadLetter | None = None
    if name == MESH_HEADER:
        try:
            told = decode_dead_letter(content or b"")
        except ProtocolError:
            told = None
    subjects = [value or b"" for name, value in others if name == SUBJECT_HEADER]
    return Letter(
        place=TopicPartition(record.topic(), record.partition()),
        offset=record.offset(),
        subject=subjects[0].decode(errors="replace") if len(subjects) == 1 else "",
        told=told,
        kept=len(record.key() or b"")
        + len(record.value() or b"")
        + sum(len(name) + len(value or b"") for name, value in others),
    )
