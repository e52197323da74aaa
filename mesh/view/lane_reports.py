"""What lanes record on the progress topics of nodes, folded in one way for all readers.

Spec: K12, K18, K20.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from mesh.core.read_positions import ReadPositions
from mesh.errors import ProtocolError, TransportError
from mesh.model.control import Stage, change_version
from mesh.model.facts import (
    NOWHERE,
    Accepted,
    EpochRaised,
    ErasBegun,
    Fact,
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
from mesh.model.interest_inputs import CHANGE
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.port import KafkaCluster, Record, TopicPartition, place_of
from mesh.transport.reading import read_logs
from mesh.wire.state import decode_fact

RecordPlace = tuple[int, bytes]
"""Partition of `progress`, and key of a record."""


@dataclass(slots=True)
class LaneReport:
    """What the lanes of one node record.

    Attributes:
        lanes: How many partitions of the topic are the lanes' own; the others belong to what is
            written beside each lane, and their positions are of endpoints, not of sources.
        read: How far sources are read, and which targets are left out.
        epochs: Lane epochs in the order written: partition, offset of the record, epoch.
        gaps: What has to be sent to them again, by key.
        in_force: The versions of interest by which lanes route, and since when by the brokers'
            clock.
        topology_number: The highest number of a topology that they have followed, or learned of.
        worked_by: The highest number of one by which they have worked: a change that only began, or
            was aborted, brought none.
        of_topics: The newest record about each source, outbox and chain.
    """

    lanes: int
    read: ReadPositions = field(default_factory=ReadPositions)
    epochs: list[tuple[int, int, int]] = field(default_factory=list)
    gaps: dict[FactKey, Gap] = field(default_factory=dict)
    in_force: list[tuple[int, InForce]] = field(default_factory=list)
    topology_number: int = 0
    worked_by: int = 0
    of_topics: dict[RecordPlace, Fact] = field(default_factory=dict)

    def take(self, record: Record) -> None:
        """Take a record of the node's progress topic.

        Raises:
            ProtocolError: It is unreadable.
        """
        value, place = record.value(), (record.partition(), record.key() or b"")
        if value is None:
            self._ended(place)
            return
        fact = decode_fact(value)
        is_beside, lane = divmod(record.partition(), self.lanes)
        if not is_beside:
            self.read.apply(lane, fact)
            if fact.at != NOWHERE:
                self.of_topics[place] = fact
        elif isinstance(fact, Held):
            self.read.of_lane(lane).apply_catch_up(fact)
        match fact:
            case EpochRaised(epoch):
                self.epochs.append((record.partition(), record.offset(), epoch))
            case InterestInForce():
                self.in_force += [(record.timestamp()[1], one) for one in fact.versions]
                for one in fact.versions:
                    if one.scope == CHANGE:
                        switch = change_version(one.epoch, Stage.SWITCH)
                        has_switched = (one.epoch, one.number) >= switch
                        self._followed(one.epoch, has_switched=has_switched)
            case ErasBegun(eras=eras):
                for began in eras:
                    self._followed(began.era.number, has_switched=True)
            case Gap():
                self.gaps.pop(fact.key, None)
                if fact.is_open:
                    self.gaps[fact.key] = fact
            case SourceAt() | Halted() | Held():
                pass  # `read` is built from these
            case Sent() | Accepted() | Truncations() | PartlyTaken():
                pass  # only the lanes themselves need it

    def _ended(self, place: RecordPlace) -> None:
        """Drop a record that a lane has ended: nothing is known of its subject any more."""
        ended = self.of_topics.pop(place, None)
        if isinstance(ended, SourceAt):
            self.read.sources.pop(ended.at, None)

    def _followed(self, number: int, *, has_switched: bool) -> None:
        self.topology_number = max(self.topology_number, number)
        if has_switched:
            self.worked_by = max(self.worked_by, number)

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The next offset of every source."""
        return {place: self.read.reached(place) for place in self.read.sources}

    @property
    def targets_held(self) -> Sequence[str]:
        """The topics that lanes leave out because they cannot be written. Spec: K20."""
        return sorted({target: None for holds in self.read.holds.values() for target in holds})

    @property
    def owed(self) -> Sequence[Gap | Held]:
        """Everything that still has to be made good: repairs, and targets that are left out."""
        held = [one for holds in self.read.holds.values() for one in holds.held]
        return [*self.gaps.values(), *held]


class LaneReports:
    """Reads the progress of all nodes, repeatedly."""

    def __init__(self, topology: Topology, kafka: Mapping[str, KafkaCluster]) -> None:
        names = TopicNames(topology.prefix)
        self._kafka = kafka
        self._of = {node: LaneReport(declared.lanes) for node, declared in topology.nodes.items()}
        self._node_of = {names.progress(node): node for node in topology.nodes}
        self._read: dict[TopicPartition, int] = {}
        self._places: dict[str, list[TopicPartition]] = {name: [] for name in kafka}
        for node, declared in topology.nodes.items():
            self._places.setdefault(declared.kafka, [])
            progress = TopicPartition.all_of(names.progress(node), declared.lane_partitions)
            self._places[declared.kafka] += progress

    def read(self) -> None:
        """Read what is new, as far as Kafka clusters answer."""
        for name in self._kafka:
            with suppress(TransportError):  # the query for offsets there reports it
                self._read_of(name)

    def read_all(self) -> None:
        """Read what is new.

        Raises:
            TransportError: A Kafka cluster does not answer.
        """
        for name in self._kafka:
            self._read_of(name)

    def _read_of(self, name: str) -> None:
        for record in self._new(name, self._kafka[name], self._places[name]):
            self._take(record)

    def _new(
        self,
        name: str,  # noqa: ARG002
        kafka: KafkaCluster,
        places: Sequence[TopicPartition],
    ) -> Sequence[Record]:
        found: list[Record] = []
        for record in read_logs(kafka, places, passed=self._read, name="progress"):
            found.append(record)
            self._read[place_of(record)] = record.offset() + 1
        return found

    def _take(self, record: Record) -> None:
        with suppress(ProtocolError):  # the node itself stops on it and reports that
            self._of[self._node_of[record.topic()]].take(record)

    def of(self, node: str) -> LaneReport:
        """Return what a node's lanes record."""
        return self._of[node]

    @property
    def topology_number(self) -> int:
        """The highest number of a topology that lanes of any node have followed; 0 for none."""
        return max((one.topology_number for one in self._of.values()), default=0)

    @property
    def worked_by(self) -> int:
        """The highest number of a topology by which lanes of any node have worked; 0 for none."""
        return max((one.worked_by for one in self._of.values()), default=0)

    def positions(self, node: str) -> Mapping[TopicPartition, int]:
        """Return the next offset of every source of a node."""
        return self._of[node].positions


def read_report(topology: Topology, kafka: Mapping[str, KafkaCluster], node: str) -> LaneReport:
    """Return what the lanes of a node record, as its progress topic has it now. Spec: K12.

    Raises:
        TransportError: Its Kafka cluster does not answer.
    """
    declared = topology.nodes[node]
    progress = TopicNames(topology.prefix).progress(node)
    places = TopicPartition.all_of(progress, declared.lane_partitions)
    report = LaneReport(declared.lanes)
    for record in read_logs(kafka[declared.kafka], places, name="progress"):
        with suppress(ProtocolError):
            report.take(record)
    return report
