"""The worker: the loop that joins the machine, the lanes and Kafka.

A turn polls, decodes, steps, performs, routes and commits. Its order is its meaning:

1. Membership first: a lane that is no longer owned must not be written to.
2. Control records before data: what is known is used.
3. Effects before data: a cut stands at the positions before the records that follow it.
4. Lanes commit when they have nothing more to read, or a limit is reached. Spec: K17.
5. What the machine offers goes out after the lanes have committed the cut. Spec: K25.

A crash between any two steps loses nothing guaranteed: only committed positions count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

import structlog

from mesh.errors import TransportError
from mesh.model.effects import (
    BecameReady,
    Effect,
    EndSubscription,
    EnsureEndpoint,
    Note,
    Reroute,
    ResumeSource,
    WriteAck,
    WriteAdvert,
    WriteHeartbeat,
    WriteLearned,
    WriteLinkState,
    WriteMark,
    WriteRepair,
    WriteStop,
    WriteSubscribed,
)
from mesh.model.inputs import (
    Input,
    LeadershipLost,
    LeadershipTaken,
    NeighbourUnreachable,
    Ticked,
)
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.node.machine import NodeMachine
from mesh.runtime.backlogs import Backlogs
from mesh.runtime.clock import Clock
from mesh.runtime.holding import Holds
from mesh.runtime.intake import Intake
from mesh.runtime.lanes import Lanes
from mesh.runtime.leading import ControlWriter, Write, identity_of, read_learned, read_written
from mesh.runtime.listening import Listener
from mesh.runtime.provision import endpoint_topic, node_topics
from mesh.runtime.recall import Recall
from mesh.runtime.repairing import Repairs
from mesh.runtime.sources import Sources
from mesh.runtime.upkeep import Upkeep
from mesh.transport.port import KafkaCluster, Membership, Reader, Record, TopicPartition, Writer

TICK_MS = 100
FLUSH_MS = 1_000
STANDBY_RETRY_MS = 500

log = structlog.get_logger()


@dataclass(slots=True)
class Worker:
    """One worker of one node.

    Attributes:
        topology, node: What it serves.
        kafka: Every Kafka cluster of the mesh that this node touches, by name.
        readers: One per Kafka cluster; `intake` reads them.
        clock: Time.
        new_uuid: Makes the node's identity at its very first start.
    """

    topology: Topology
    node: str
    kafka: Mapping[str, KafkaCluster]
    readers: Mapping[str, Reader]
    intake: Intake
    clock: Clock
    new_uuid: Callable[[], str]
    machine: NodeMachine | None = None
    _home: KafkaCluster = field(init=False)
    _names: TopicNames = field(init=False)
    membership: Membership = field(init=False)
    _direct: Writer = field(init=False)
    _listener: Listener = field(init=False)
    _control_place: TopicPartition = field(init=False)
    _recall: Recall = field(init=False)
    _lanes: Lanes | None = None
    _repairs: Repairs | None = None
    _holds: Holds | None = None
    _backlogs: Backlogs | None = None
    _control: ControlWriter | None = None
    _writes: list[Write] = field(default_factory=list)
    _ticked_ms: int = -TICK_MS
    _flushed_ms: int = 0
    _standby_ms: int = -STANDBY_RETRY_MS
    _cut: tuple[str, ...] = ()
    _upkeep: Upkeep | None = None

    def __post_init__(self) -> None:
        """Make the node's topics and join its workers."""
        self._names = TopicNames(self.topology.prefix)
        self._home = self.kafka[self.topology.nodes[self.node].kafka]
        self._home.admin().create(node_topics(self.topology, self.node))
        self.membership = self._home.membership(
            "lanes",
            self._names.lanes_group(self.node),
            self._names.lanes(self.node),
        )
        self._direct = self._home.writer("direct")
        self._control_place = TopicPartition(self._names.control(self.node), 0)
        lanes = range(self.topology.nodes[self.node].lanes)
        progress = [TopicPartition(self._names.progress(self.node), lane) for lane in lanes]
        self._recall = Recall(self._home, [self._control_place, *progress], self.clock.now_ms)
        admins = {name: kafka.admin() for name, kafka in self.kafka.items()}
        self._listener = Listener(
            self.topology, self.node, admins, self.readers, self.intake, self.clock.now_ms()
        )

    @property
    def is_ready(self) -> bool:
        """Whether the node serves here: everything proven, and the lanes owned are taken."""
        return (
            self._lanes is not None
            and self._lanes.machine.is_ready
            and set(self._lanes.owned) >= self.membership.lanes()
        )

    # -- one turn -------------------------------------------------------------------------

    def turn(self, timeout_s: float) -> bool:
        """Do what there is to do, waiting at most `timeout_s` for records.

        Returns:
            Whether anything was read.
        """
        self.membership.poll()
        self._follow_membership()
        lanes = self._lanes
        if lanes is not None:
            lanes.hand_back(sorted(set(lanes.owned) - self.membership.lanes()))
            lanes.sources.moved.clear()
        records = self.intake.read(timeout_s if lanes is None else lanes.patience(timeout_s))
        now = self.clock.now_ms()
        data = self._sort(records)
        if lanes is None:
            return bool(records)
        for input_ in self._listener.follow(now):
            self._step(self._with_learned(input_))
        if now - self._ticked_ms >= TICK_MS:
            self._ticked_ms = now
            self._step(Ticked(now))
        if self._listener.knows_wishes:
            self._stand_still()
            lanes.follow(self.membership.lanes(), now)
        if self._upkeep is not None:
            leads = self._control is not None
            self._upkeep.see_to(self._listener.link_states if leads else None, now)
        if now - self._flushed_ms >= FLUSH_MS:
            self._flush_direct(now)
        for news in (
            lanes.route(data, now),
            lanes.resume_accepted(now),
            lanes.commit_due(is_idle=not records),
            self._catch_up(now),
            self._backlogs.step(self._listener.link_states, now) if self._backlogs else (),
        ):
            for input_ in news:
                self._step(input_)
        lanes.write_direct()
        self._write_control()
        return bool(records)

    def _catch_up(self, now: int) -> Iterator[Input]:
        """Write what targets miss, beside the lanes; one at a time has that writer. Spec: K20."""
        if self._repairs is not None and self._holds is not None:
            if not self._holds.is_active:
                yield from self._repairs.step(now)
            if not self._repairs.is_active:
                yield from self._holds.step(now)

    def _with_learned(self, input_: Input) -> Input:
        """Add to the news that a neighbour is out of reach what it wanted at last. Spec: K21."""
        if not isinstance(input_, NeighbourUnreachable):
            return input_
        place = TopicPartition(self._names.learned(self.node), 0)
        learned = read_learned(self._recall.records(place), input_.neighbour)
        return NeighbourUnreachable(input_.neighbour, learned)

    def _sort(self, records: Sequence[Record]) -> Mapping[TopicPartition, list[Record]]:
        """Feed control records to the machine; return the others by partition, in order."""
        data: dict[tuple[str, int], list[Record]] = {}
        group: list[Record] = []
        last_topic, last_partition = "", -1
        for record in records:
            topic, partition = record.topic(), record.partition()
            if partition != last_partition or topic != last_topic:
                group = data.setdefault((topic, partition), [])
                last_topic, last_partition = topic, partition
            group.append(record)
        found: dict[TopicPartition, list[Record]] = {}
        for (topic, partition), group in data.items():
            if self._listener.has(topic, partition):
                self._hear(group)
            else:
                found[TopicPartition(topic, partition)] = group
        return found

    def _hear(self, records: Sequence[Record]) -> None:
        for record in records:
            for input_ in self._listener.take(record):
                self._step(input_)

    # -- membership -----------------------------------------------------------------------

    def _follow_membership(self) -> None:
        if 0 in self.membership.lanes():
            if self._control is None:
                self._lead()
        else:
            if self._control is not None:
                self._stop_leading()
            if self.machine is None:
                self._stand_by()

    def _lead(self) -> None:
        """Take the control topics: the writer first, so that what is read stays true. K16."""
        writer = self._home.writer("control", self._names.control_transactions(self.node))
        written = read_written(self._recall.records(self._control_place))
        former = written.identity
        uuid = former.uuid if former is not None else self.new_uuid()
        epoch = former.epoch + 1 if former is not None else 1
        self._control = ControlWriter(self.topology, self.node, writer, self._read_positions)
        self._control.introduce(identity_of(self.topology, self.node, self._home, uuid, epoch))
        if self.machine is None:
            self._know(uuid)
        log.info("node.leads", epoch=epoch)
        self._step(LeadershipTaken(epoch, written.offers, tuple(written.stops)))

    def _stand_by(self) -> None:
        """Learn who the node is from the worker that leads it."""
        now = self.clock.now_ms()
        if now - self._standby_ms < STANDBY_RETRY_MS:
            return
        self._standby_ms = now
        written = read_written(self._recall.records(self._control_place))
        if written.identity is not None:
            self._know(written.identity.uuid)

    def _know(self, uuid: str) -> None:
        self.machine = NodeMachine(self.topology, self.node, uuid)
        admins = {name: kafka.admin() for name, kafka in self.kafka.items()}
        sources = Sources(
            self.topology, self.node, self.machine.learner, admins, self.readers, self.intake
        )
        sources.still.cut = self._cut
        sources.still.paused = self._listener.paused
        self._lanes = Lanes(
            self.topology,
            self._home,
            self._recall,
            self.machine,
            sources,
            self._direct,
            self.clock,
        )
        home = self.topology.nodes[self.node].kafka
        self._upkeep = Upkeep(self.topology, self.node, self._home, self._lanes)
        self._repairs = Repairs(self.kafka, home, self._lanes, self._listener.asked)
        self._holds = Holds(self.kafka, home, self._lanes)
        self._backlogs = Backlogs(self.topology, self.node, self._home, self._lanes)

    def _stop_leading(self) -> None:
        if self._control is not None:
            self._control.writer.close()
            self._control = None
            self._writes.clear()
            self._step(LeadershipLost())

    # -- effects --------------------------------------------------------------------------

    def _step(self, input_: Input) -> None:
        if self.machine is None:
            return
        for effect in self.machine.step(input_):
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case EnsureEndpoint(endpoint, message_class):
                topic = endpoint_topic(self.topology, self.node, endpoint, message_class)
                self._home.admin().create([topic])
            case Reroute(in_force, cuts):
                if self._lanes is not None:
                    self._lanes.cut(in_force, cuts)
            case (
                WriteAdvert()
                | WriteMark()
                | WriteAck()
                | WriteSubscribed()
                | WriteHeartbeat()
                | WriteLinkState()
                | WriteLearned()
                | WriteStop()
                | WriteRepair()
                | EndSubscription()
            ):
                self._writes.append(effect)
            case ResumeSource(stop):
                if self._lanes is not None:
                    self._lanes.resume(stop)
            case BecameReady():
                log.info("node.ready")
            case Note(event, text):
                log.warning(event, text=text)
            case _:
                assert_never(effect)

    def _write_control(self) -> None:
        """Write what the machine asked for in this turn, in one transaction. Spec: K23."""
        if self._control is None:
            return
        if not self._writes:
            return
        writes, self._writes = self._writes, []
        try:
            self._control.write(writes)
        except TransportError as error:
            # The next leader, perhaps this worker, compares what is written with what should be.
            log.warning("control.lost", fault=str(error))
            self._stop_leading()

    def _read_positions(self, neighbour: str) -> Sequence[tuple[str, int, int]]:
        if self._lanes is None:
            return []
        positions = self._lanes.read_positions(neighbour)
        return [(at.topic, at.partition, position) for at, position in positions.items()]

    def _flush_direct(self, now: int) -> None:
        """Have the direct writer tell what it could not deliver, and replace it if it died."""
        self._flushed_ms = now
        if failed := self._direct.flush():
            log.warning("direct.lost", records=failed)

    def cut(self, neighbours: Sequence[str]) -> None:
        """Read nothing of exactly these neighbours from now on, as if the network were cut.

        For drills: what the neighbours write stays, and is read when the link heals.
        """
        self._listener.cut(neighbours)
        self._cut = tuple(neighbours)
        self._stand_still()

    def _stand_still(self) -> None:
        """Read nothing of what is cut or paused, and again of what is so no more."""
        if self._lanes is None:
            return
        still, lanes = self._lanes.sources.still, self._lanes
        now = self.clock.now_ms()
        lanes.pause_subjects(self._listener.paused_subjects, now)
        wanted = (self._cut, self._listener.paused)
        if still.wake(now) or wanted != (still.cut, still.paused):
            still.cut, still.paused = wanted
            lanes.sources.settle(lanes.owned, now)

    def close(self) -> None:
        """Commit what is open and leave the group at once; who leads next says all anew."""
        if self._lanes is not None:
            self._lanes.hand_back(sorted(self._lanes.owned))
        self.abandon()

    def abandon(self) -> None:
        """Leave the group and release everything; what is not committed never happened."""
        self.membership.close()
        if self._repairs is not None:
            self._repairs.close()
        if self._holds is not None:
            self._holds.close()
        if self._lanes is not None:
            for number in list(self._lanes.owned):
                self._lanes.drop(number)
        if self._control is not None:
            self._control.writer.close()
        self._direct.flush()
        self._direct.close()
        self._recall.close()
        self.intake.close()
