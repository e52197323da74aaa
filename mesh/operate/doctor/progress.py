"""What lanes say of themselves on their nodes' progress topics. Spec: K12, K18."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mesh.codec.state import decode_progress
from mesh.core.held import HeldTargets
from mesh.errors import ProtocolError, TransportError
from mesh.model.state import Progress, ProgressKind
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.port import KafkaCluster, Record, TopicPartition
from mesh.transport.reading import read_range


@dataclass(slots=True)
class Told:
    """What one node's progress says.

    Attributes:
        sources: Newest position of every source.
        epochs: Lane epochs in the order written: partition, offset of the record, epoch.
        held: What lanes say of targets that they leave out.
        gaps: What is to be sent to them again, by record key.
    """

    sources: dict[TopicPartition, Progress] = field(default_factory=dict)
    epochs: list[tuple[int, int, int]] = field(default_factory=list)
    held: HeldTargets = field(default_factory=HeldTargets)
    gaps: dict[bytes, Progress] = field(default_factory=dict)

    @property
    def targets_held(self) -> Sequence[str]:
        """Return the topics that lanes leave out because they cannot be written. Spec: K20."""
        return sorted({one.topic: None for one in self.held.still})


class Progresses:
    """Reads the progress of all nodes, one reader per Kafka cluster, again and again."""

    def __init__(self, topology: Topology, kafka: Mapping[str, KafkaCluster]) -> None:
        names = TopicNames(topology.prefix)
        self._kafka = kafka
        self._told = {node: Told() for node in topology.nodes}
        self._node_of = {names.progress(node): node for node in topology.nodes}
        # What stands beyond the lanes' own partitions is of endpoints, not of sources.
        self._lanes = {node: declared.lanes for node, declared in topology.nodes.items()}
        self._read: dict[TopicPartition, int] = {}
        self._places: dict[str, list[TopicPartition]] = {name: [] for name in kafka}
        for node, declared in topology.nodes.items():
            self._places.setdefault(declared.kafka, [])
            self._places[declared.kafka] += _places(names.progress(node), 2 * declared.lanes)

    def read(self) -> None:
        """Read what is new."""
        for name, kafka in self._kafka.items():
            try:
                for record in self._new(name, kafka, self._places[name]):
                    self._take(record)
            except TransportError:
                continue  # told by whoever asks the same Kafka cluster for offsets

    def _new(
        self,
        name: str,  # noqa: ARG002
        kafka: KafkaCluster,
        places: Sequence[TopicPartition],
    ) -> Sequence[Record]:
        ends, starts = kafka.admin().stable_ends(places), kafka.admin().starts(places)
        begins = {
            place: max(self._read.get(place, 0), starts[place])
            for place, end in ends.items()
            if place in starts and end > max(self._read.get(place, 0), starts[place])
        }
        found = list(read_range(kafka, begins, ends, name="progress"))
        self._read |= ends
        return found

    def _take(self, record: Record) -> None:
        value = record.value()
        try:
            progress = decode_progress(value) if value is not None else None
        except ProtocolError:
            return  # the node itself stops on it and says so
        if progress is None:
            return
        node = self._node_of[record.topic()]
        told = self._told[node]
        if progress.kind is ProgressKind.SOURCE and record.partition() < self._lanes[node]:
            told.sources[TopicPartition(progress.topic, progress.partition)] = progress
        elif progress.kind is ProgressKind.EPOCH:
            told.epochs.append((record.partition(), record.offset(), progress.offset))
        elif progress.kind is ProgressKind.HELD:
            told.held.take(progress)
        elif progress.kind is ProgressKind.GAP:
            told.gaps.pop(record.key() or b"", None)
            if progress.reason:
                told.gaps[record.key() or b""] = progress

    def of(self, node: str) -> Told:
        """Return what a node's progress says."""
        return self._told[node]

    def positions(self, node: str) -> Mapping[TopicPartition, int]:
        """Return the next offset of every source of a node."""
        return {place: one.offset for place, one in self._told[node].sources.items()}


def _places(topic: str, partitions: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(partitions)]


def read_positions(
    kafka: KafkaCluster, topic: str, partitions: int
) -> Mapping[TopicPartition, int]:
    """Return the next offset of every source, as a node's progress topic says. Spec: K12."""
    places = _places(topic, partitions)
    ends = kafka.admin().stable_ends(places)
    starts = kafka.admin().starts(places)
    found: dict[TopicPartition, int] = {}
    begins = {place: starts[place] for place in ends if place in starts}
    for record in read_range(kafka, begins, ends, name="progress"):
        value = record.value()
        try:
            progress = decode_progress(value) if value is not None else None
        except ProtocolError:
            continue
        if progress is not None and progress.kind is ProgressKind.SOURCE:
            found[TopicPartition(progress.topic, progress.partition)] = progress.offset
    return found
