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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

import structlog

from mesh.errors import TransportError, TransportFencedError
from mesh.model.control import RepairRequest
from mesh.model.effects import (
    BecameReady,
    Effect,
    EndSubscription,
    EnsureEndpoint,
    Note,
    Reroute,
    WriteAck,
    WriteAdvert,
    WriteHeartbeat,
    WriteLinkState,
    WriteMark,
    WriteSubscribed,
)
from mesh.model.inputs import Input, LaneApplied, LeadershipLost, LeadershipTaken, Ticked
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.node.machine import NodeMachine
from mesh.runtime.clock import Clock
from mesh.runtime.ingress import take_ingress
from mesh.runtime.intake import Intake
from mesh.runtime.lane import Lane
from mesh.runtime.leading import ControlWriter, Write, identity_of, read_written
from mesh.runtime.listening import Listener
from mesh.runtime.provision import endpoint_topic, node_topics
from mesh.runtime.retention import Retention
from mesh.runtime.sources import Sources
from mesh.runtime.taking import take_lane
from mesh.runtime.transit import take_frames
from mesh.transport.port import KafkaCluster, Membership, Reader, Record, TopicPartition, Writer

BATCH_MESSAGES = 10_000
BATCH_MS = 100
"""A batch closes at 10,000 messages or 100 ms. Spec: K17."""

COMMIT_GAP_MS = 20
"""Least time between two commits of a busy lane: each costs the broker a few ms of CPU."""

TICK_MS = 100
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
    lanes: dict[int, Lane] = field(default_factory=dict)
    _home: KafkaCluster = field(init=False)
    _names: TopicNames = field(init=False)
    membership: Membership = field(init=False)
    _direct: Writer = field(init=False)
    _listener: Listener = field(init=False)
    _sources: Sources | None = None
    _control: ControlWriter | None = None
    _writes: list[Write] = field(default_factory=list)
    _ticked_ms: int = -TICK_MS
    _standby_ms: int = -STANDBY_RETRY_MS
    _committed_ms: int = -COMMIT_GAP_MS
    _cut: tuple[str, ...] = ()
    _retention: Retention = field(init=False)

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
        self._retention = Retention(int(self.topology.keep_s * 1000))
        admins = {name: kafka.admin() for name, kafka in self.kafka.items()}
        self._listener = Listener(
            self.topology, self.node, admins, self.readers, self.intake, self.clock.now_ms()
        )

    @property
    def is_ready(self) -> bool:
        """Whether the node serves here: everything proven, and the lanes owned are taken."""
        return (
            self.machine is not None
            and self.machine.is_ready
            and set(self.lanes) >= self.membership.lanes()
        )

    # -- one turn -------------------------------------------------------------------------

    def turn(self, timeout_s: float) -> bool:
        """Do what there is to do, waiting at most `timeout_s` for records.

        Returns:
            Whether anything was read or committed.
        """
        self.membership.poll()
        self._follow_membership()
        records = self.intake.read(self._patience(timeout_s))
        now = self.clock.now_ms()
        data = self._sort(records)
        if self.machine is not None:
            for input_ in self._listener.follow(now):
                self._step(input_)
            if now - self._ticked_ms >= TICK_MS:
                self._ticked_ms = now
                self._step(Ticked(now))
            self._start_lanes(now)
            if self._retention.is_due(now):
                self._delete_passed(now)
        self._route(data, now)
        committed = self._commit_lanes(is_idle=not records)
        self._write_control()
        return bool(records) or committed

    def _patience(self, timeout_s: float) -> float:
        """Return how long to wait for records: not past the moment a batch must close."""
        if any(lane.batch is not None for lane in self.lanes.values()):
            gap = self._committed_ms + COMMIT_GAP_MS - self.clock.now_ms()
            return min(timeout_s, max(0.0, gap / 1000))
        return timeout_s

    def _sort(self, records: Sequence[Record]) -> Mapping[TopicPartition, list[Record]]:
        """Feed control records to the machine; return the others by partition, in order."""
        data: dict[tuple[str, int], list[Record]] = {}
        for record in records:
            at = (record.topic(), record.partition())
            group = data.get(at)
            if group is None:
                group = data[at] = []
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
        owned = self.membership.lanes()
        for number in [number for number in self.lanes if number not in owned]:
            self._drop(number)
        if 0 in owned:
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
        written = read_written(self._home, self.topology, self.node, self.clock)
        former = written.identity
        uuid = former.uuid if former is not None else self.new_uuid()
        epoch = former.epoch + 1 if former is not None else 1
        self._control = ControlWriter(self.topology, self.node, writer, self._read_positions)
        self._control.introduce(identity_of(self.topology, self.node, self._home, uuid, epoch))
        if self.machine is None:
            self._know(uuid)
        log.info("node.leads", epoch=epoch)
        self._step(LeadershipTaken(epoch, written.offers))

    def _stand_by(self) -> None:
        """Learn who the node is from the worker that leads it."""
        now = self.clock.now_ms()
        if now - self._standby_ms < STANDBY_RETRY_MS:
            return
        self._standby_ms = now
        written = read_written(self._home, self.topology, self.node, self.clock)
        if written.identity is not None:
            self._know(written.identity.uuid)

    def _know(self, uuid: str) -> None:
        self.machine = NodeMachine(self.topology, self.node, uuid)
        self._sources = Sources(
            self.topology,
            self.node,
            self.machine.learner,
            {name: kafka.admin() for name, kafka in self.kafka.items()},
            self.readers,
            self.intake,
        )
        self._sources.cut(self._cut, self.lanes)

    def _stop_leading(self) -> None:
        if self._control is not None:
            self._control.writer.close()
            self._control = None
            self._writes.clear()
            self._step(LeadershipLost())

    # -- lanes ----------------------------------------------------------------------------

    def _start_lanes(self, now: int) -> None:
        machine, sources = self.machine, self._sources
        if machine is None or sources is None or not machine.has_routed:
            return
        for number in sorted(self.membership.lanes() - set(self.lanes)):
            try:
                lane = take_lane(
                    self.topology, machine.learner, number, self._home, self._direct, self.clock
                )
            except TransportError as error:
                log.warning("lane.not_taken", lane=number, fault=str(error))
                continue
            self.lanes[number] = lane
            sources.start(lane)
            lane.cut(machine.in_force, machine.learner.all_cuts(), now)
            log.info("lane.taken", lane=number, epoch=lane.positions.epoch)
        sources.find(self.lanes, now)
        for place in sources.lost():
            log.error("source.lost", topic=place.topic, partition=place.partition)

    def _drop(self, number: int) -> None:
        lane = self.lanes.pop(number)
        if self._sources is not None:
            self._sources.stop(lane)
        lane.writer.close()
        log.info("lane.dropped", lane=number)

    def _route(self, data: Mapping[TopicPartition, list[Record]], now: int) -> None:
        lanes = self.topology.nodes[self.node].lanes
        for at, records in data.items():
            lane = self.lanes.get(at.partition % lanes)
            source = lane.sources.get(at) if lane is not None else None
            if lane is None or source is None:
                continue  # fetched before the lane was given up
            if source.link is None:
                take_ingress(lane, source, records, now)
            else:
                take_frames(lane, source, source.link, records, now)

    def _commit_lanes(self, *, is_idle: bool) -> bool:
        now = self.clock.now_ms()
        is_time = now - self._committed_ms >= COMMIT_GAP_MS
        due = [
            lane
            for lane in self.lanes.values()
            if lane.batch is not None
            and (
                lane.batch.messages >= BATCH_MESSAGES
                or now - lane.batch.opened_ms >= BATCH_MS
                or (is_idle and is_time)
            )
        ]
        for lane in due:
            self._commit(lane)
        return bool(due)

    def _commit(self, lane: Lane) -> None:
        try:
            in_force = lane.commit()
        except TransportFencedError:
            log.warning("lane.fenced", lane=lane.number)
            self._drop(lane.number)
            return
        except TransportError as error:
            # Nothing was committed: take the lane anew, from what is. Spec: R3, R7.
            log.warning("lane.aborted", lane=lane.number, fault=str(error))
            self._drop(lane.number)
            return
        self._committed_ms = self.clock.now_ms()
        self._step(LaneApplied(lane.number, in_force))

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
                for lane in self.lanes.values():
                    lane.cut(in_force, cuts, self.clock.now_ms())
            case (
                WriteAdvert()
                | WriteMark()
                | WriteAck()
                | WriteSubscribed()
                | WriteHeartbeat()
                | WriteLinkState()
                | EndSubscription()
            ):
                self._writes.append(effect)
            case BecameReady():
                log.info("node.ready")
            case Note(event, text):
                log.warning(event, text=text)
            case _:
                assert_never(effect)

    def _write_control(self) -> None:
        """Write what the machine asked for in this turn, in one transaction. Spec: K23."""
        repairs = [
            (
                source.link.neighbour,
                RepairRequest(
                    source.at.topic, source.at.partition, origin.topic_id, origin.partition, last
                ),
            )
            for lane in self.lanes.values()
            for source, origin, last in lane.repairs
            if source.link is not None
        ]
        if self._control is None or not (self._writes or repairs):
            return
        for lane in self.lanes.values():
            lane.repairs.clear()
        writes, self._writes = self._writes, []
        try:
            self._control.write(writes, repairs)
        except TransportError as error:
            # The next leader, perhaps this worker, compares what is written with what should be.
            log.warning("control.lost", fault=str(error))
            self._stop_leading()

    def _read_positions(self, neighbour: str) -> Sequence[tuple[str, int, int]]:
        return [
            (source.at.topic, source.at.partition, lane.positions.next[source.at])
            for lane in self.lanes.values()
            for source in lane.sources.values()
            if source.link is not None
            and source.link.neighbour == neighbour
            and source.at in lane.positions.next
        ]

    def _delete_passed(self, now: int) -> None:
        """Delete what readers passed long ago: own ingress, and outboxes if this leads. K5."""
        passed = {
            source.at: lane.positions.next[source.at]
            for lane in self.lanes.values()
            for source in lane.sources.values()
            if source.link is None and source.at in lane.positions.next
        }
        if self._control is not None:
            for state in self._listener.link_states.values():
                for topic, partition, position in state.positions:
                    passed[TopicPartition(topic, partition)] = position
        self._retention.passed(passed, now)
        try:
            self._home.admin().delete_before(self._retention.deletable(now))
        except TransportError as error:
            log.warning("retention.failed", fault=str(error))

    def cut(self, neighbours: Sequence[str]) -> None:
        """Read nothing of exactly these neighbours from now on, as if the network were cut.

        For drills: what the neighbours write stays, and is read when the link heals.
        """
        self._listener.cut(neighbours)
        if self._sources is not None:
            self._sources.cut(neighbours, self.lanes)
        self._cut = tuple(neighbours)

    def close(self) -> None:
        """Commit what is open, leave the group at once, and release everything."""
        for lane in list(self.lanes.values()):
            self._commit(lane)
        self._write_control()
        self.membership.close()
        for lane in self.lanes.values():
            lane.writer.close()
        if self._control is not None:
            self._control.writer.close()
        self._direct.flush()
        self._direct.close()
        self.intake.close()
