"""What lanes say of themselves on the progress topics of nodes, folded in one way for all who ask.

Spec: K12, K18, K20.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from mesh.core.holds import Holds
from mesh.errors import ProtocolError, TransportError
from mesh.model.control import Stop
from mesh.model.facts import (
    Accepted,
    EpochRaised,
    ErasBegun,
    FactKey,
    Gap,
    Halted,
    Held,
    InForce,
    InterestInForce,
    PartlyTaken,
    Sent,
    SourceAt,
    Truncations,
)
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.port import KafkaCluster, Record, TopicPartition
from mesh.transport.reading import read_logs
from mesh.wire.state import decode_fact


@dataclass(slots=True)
class LaneReport:
    """What the lanes of one node say.

    Attributes:
        lanes: How many partitions of the topic are the lanes' own; those beyond them are of what is
            written beside each lane, and positions there are of endpoints, not of sources.
        sources: Newest position of every source.
        stopped: Which are read no further, and where; what is there now was not read.
        epochs: Lane epochs in the order written: partition, offset of the record, epoch.
        holds: Which targets are left out, by lane.
        gaps: What is to be sent to them again, by key.
        in_force: By which versions of interest lanes routed, and since when by the brokers' clock.
    """

    lanes: int
    sources: dict[TopicPartition, SourceAt] = field(default_factory=dict)
    stopped: dict[TopicPartition, Stop] = field(default_factory=dict)
    epochs: list[tuple[int, int, int]] = field(default_factory=list)
    holds: dict[int, Holds] = field(default_factory=dict)
    gaps: dict[FactKey, Gap] = field(default_factory=dict)
    in_force: list[tuple[int, InForce]] = field(default_factory=list)

    def take(self, record: Record) -> None:
        """Take a record of the node's progress topic.

        Raises:
            ProtocolError: It cannot be read.
        """
        value = record.value()
        if value is None:
            return
        fact = decode_fact(value)
        match fact:
            case SourceAt(at) if record.partition() < self.lanes:
                self.sources[at] = fact
            case Halted(stop):
                self.stopped.pop(fact.at, None)
                if not fact.is_over:
                    self.stopped[fact.at] = stop
            case EpochRaised(epoch):
                self.epochs.append((record.partition(), record.offset(), epoch))
            case InterestInForce():
                self.in_force += [(record.timestamp()[1], one) for one in fact.versions]
            case Held():
                is_beside, lane = divmod(record.partition(), self.lanes)
                holds = self.holds.setdefault(lane, Holds())
                (holds.apply_catch_up if is_beside else holds.apply)(fact)
            case Gap():
                self.gaps.pop(fact.key, None)
                if fact.is_open:
                    self.gaps[fact.key] = fact
            case SourceAt():
                pass  # where work beside the lanes stands
            case Sent() | Accepted() | ErasBegun() | Truncations() | PartlyTaken():
                pass  # what only the lanes themselves need

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The next offset of every source."""
        return {place: self.reached(place) for place in self.sources}

    def reached(self, place: TopicPartition) -> int:
        """Return the next offset of a source: no further than where its log was cut off."""
        offset = self.sources[place].next
        stop = self.stopped.get(place)
        return offset if stop is None else min(offset, stop.first)

    @property
    def targets_held(self) -> Sequence[str]:
        """The topics that lanes leave out because they cannot be written. Spec: K20."""
        return sorted({target: None for holds in self.holds.values() for target in holds})

    @property
    def owed(self) -> Sequence[Gap | Held]:
        """Everything that is still to be made good: repairs, and targets that are left out."""
        return [*self.gaps.values(), *(one for holds in self.holds.values() for one in holds.held)]


class LaneReports:
    """Reads the progress of all nodes, again and again."""

    def __init__(self, topology: Topology, kafka: Mapping[str, KafkaCluster]) -> None:
        names = TopicNames(topology.prefix)
        self._kafka = kafka
        self._of = {node: LaneReport(declared.lanes) for node, declared in topology.nodes.items()}
        self._node_of = {names.progress(node): node for node in topology.nodes}
        self._read: dict[TopicPartition, int] = {}
        self._places: dict[str, list[TopicPartition]] = {name: [] for name in kafka}
        for node, declared in topology.nodes.items():
            self._places.setdefault(declared.kafka, [])
            self._places[declared.kafka] += _places(names.progress(node), declared.lanes)

    def read(self) -> None:
        """Read what is new."""
        for name, kafka in self._kafka.items():
            try:
                for record in self._new(name, kafka, self._places[name]):
                    self._take(record)
            except TransportError:
                continue  # reported by the query for offsets of the same Kafka cluster

    def _new(
        self,
        name: str,  # noqa: ARG002
        kafka: KafkaCluster,
        places: Sequence[TopicPartition],
    ) -> Sequence[Record]:
        found: list[Record] = []
        for record in read_logs(kafka, places, passed=self._read, name="progress"):
            found.append(record)
            place = TopicPartition(record.topic(), record.partition())
            self._read[place] = record.offset() + 1
        return found

    def _take(self, record: Record) -> None:
        with suppress(ProtocolError):  # the node itself stops on it and says so
            self._of[self._node_of[record.topic()]].take(record)

    def of(self, node: str) -> LaneReport:
        """Return what a node's lanes say."""
        return self._of[node]

    def positions(self, node: str) -> Mapping[TopicPartition, int]:
        """Return the next offset of every source of a node."""
        return self._of[node].positions


def _places(topic: str, lanes: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(2 * lanes)]


def read_positions(kafka: KafkaCluster, topic: str, lanes: int) -> Mapping[TopicPartition, int]:
    """Return the next offset of every source, as a node's progress topic says. Spec: K12.

    Raises:
        TransportError: The Kafka cluster does not answer.
    """
    return read_report(kafka, topic, lanes).positions


def read_report(kafka: KafkaCluster, topic: str, lanes: int) -> LaneReport:
    """Return what the lanes of a node say, as its progress topic has it now. Spec: K12.

    Raises:
        TransportError: The Kafka cluster does not answer.
    """
    report = LaneReport(lanes)
    for record in read_logs(kafka, _places(topic, lanes), name="progress"):
        with suppress(ProtocolError):
            report.take(record)
    return report
