"""What a worker does for its node once it knows which one it serves: the turns of its life.

A turn performs, routes and commits. Its order is its meaning:

1. Control records come before data: knowledge is applied before it is needed.
2. Effects before data: a cut stands at the positions before the records that follow it.
3. Lanes commit when they have nothing more to read, or a limit is reached. Spec: K17.
4. What the machine offers goes out after the lanes have committed the cut. Spec: K25.

A crash between any two steps loses nothing guaranteed: only committed positions count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

import structlog

from mesh.model.effects import (
    BecameReady,
    Effect,
    EnsureEndpoint,
    Note,
    ReadAgain,
    Relinked,
    RepeatLearned,
    Reroute,
    RestartLeadership,
    ResumeSource,
    StartWithout,
    Write,
    WriteHeartbeat,
    WriteSubscribed,
)
from mesh.model.inputs import Input, Ticked
from mesh.node.machine import NodeMachine
from mesh.transport.port import Reader, Record, TopicPartition
from mesh.worker.background import BackgroundWork
from mesh.worker.control.acknowledged_interest import AcknowledgedInterest
from mesh.worker.control.frozen_neighbours import FrozenNeighbours
from mesh.worker.control.leadership import Leadership
from mesh.worker.control.listener import Listener
from mesh.worker.control.standing_by import StandingBy
from mesh.worker.control.topology_changes import TopologyChanges
from mesh.worker.lanes.drain_probe import DrainProbe
from mesh.worker.lanes.owned import Lanes
from mesh.worker.process.clock import AwakeTime, Clock
from mesh.worker.topics.targets import Targets
from mesh.worker.topics.upkeep import Upkeep
from mesh.worker.trees.service import TreeService

TICK_MS = 100

log = structlog.get_logger()


@dataclass(slots=True)
class NodeService:
    """The parts of a worker that know their node, and what they do in a turn.

    Attributes:
        clock: Time.
        readers: One per Kafka cluster.
        listener: Reads what neighbours, operators and clients write.
        leadership: Writes for the node if this worker leads it.
        changes: Follows changes of the topology.
        acknowledged: Reads what former owners of lanes knew.
        frozen: Knows what neighbours wanted last that the node cannot go by directly.
        machine: Decides.
        lanes: The lanes that this worker owns.
        targets: Looks after endpoints and outboxes.
        upkeep: Looks after the node's topics.
        background: Work beside the lanes.
        trees: The tree layer; None for a worker without one.
        standing_by: Reports what this worker has heard while it has no lane; None if it does not.
        isolated: Neighbours that an injected fault cuts off.
    """

    clock: Clock
    readers: Mapping[str, Reader]
    listener: Listener
    leadership: Leadership
    changes: TopologyChanges
    acknowledged: AcknowledgedInterest
    frozen: FrozenNeighbours
    machine: NodeMachine
    lanes: Lanes
    targets: Targets
    upkeep: Upkeep
    background: BackgroundWork
    trees: TreeService | None
    standing_by: StandingBy | None
    isolated: tuple[str, ...]
    _drain_probe: DrainProbe = field(init=False)
    _ticked_ms: int = -TICK_MS
    _time: AwakeTime = field(default_factory=AwakeTime)
    _seen_ms: int = -1

    def __post_init__(self) -> None:
        """Register the parts that follow topology changes; begin to look and to read."""
        self._drain_probe = DrainProbe(self.lanes)
        gate = self.lanes.sources.gate
        gate.isolated = self.isolated
        gate.paused = self.listener.orders.paused
        gate.holding = self.changes.is_held(self.listener.orders.change)
        self.changes.parts += [self.lanes, self.upkeep, self.targets, self.background]

    # -- one turn -------------------------------------------------------------------------

    def turn(
        self,
        assigned: frozenset[int],
        data: Mapping[TopicPartition, Sequence[Record]],
        now: int,
        *,
        is_idle: bool,
    ) -> None:
        """Do what is due.

        Args:
            assigned: The lanes that the group assigned to this worker.
            data: Records of what they read.
            now: The present moment, in ms.
            is_idle: Whether nothing was read at all.
        """
        lanes, awake_ms = self.lanes, self._time.at(now)
        self._see_to_losses(now)
        for lagging in self.acknowledged.step(lanes, now):
            self.step(lagging)
        for input_ in self.frozen.complete(self.listener.follow(now), now):
            self.step(input_)
        if now - self._ticked_ms >= TICK_MS:
            self._ticked_ms = now
            self.step(Ticked(awake_ms))
        if knows_orders := self.listener.knows_orders:
            self.update_gate()
        # Movers of queues write by the old walks, and wait for no commit of a lane: if the node
        # said now that it holds, others would think that nothing more comes. Spec: K28.
        is_moving = lanes.sources.gate.holding and self.background.movers.is_writing
        if knows_orders:
            if not is_moving:
                for change in self.changes.follow(self.listener.orders.word, now):
                    self.step(change)
            if self.targets.may_begin(now):
                for told in lanes.follow(assigned, now):
                    self.step(told)
        for made in self.targets.see_to(now):
            self.step(made)
        leads = self.leadership.is_ours
        self.upkeep.see_to(self.listener.link_states if leads else None, now)
        lanes.direct.count_failed(lanes.owned.values(), now)
        for routed in lanes.route(data, now):
            self.step(routed)
        for resumed in lanes.resume_accepted(now):
            self.step(resumed)
        for committed in lanes.commit_due(is_idle=is_idle):
            self.step(committed)
        leads, link_states = self.leadership.is_ours, self.listener.link_states
        for told in self.background.step(link_states, now, leads=leads):
            self.step(told)
        if not is_moving:
            for drained in self._drain_probe.follow(now):
                self.step(drained)
        lanes.direct.write_due(list(lanes.owned.values()))
        if self.targets.seen_ms != self._seen_ms:
            self._seen_ms = self.targets.seen_ms
            self.leadership.leave_out(self.targets.unwritable_control, self._seen_ms)
        for input_ in self.leadership.write(now):
            self.step(input_)
        self._follow_trees(now)
        self._stand_by(now)
        lanes.write_log()

    def _see_to_losses(self, now: int) -> None:
        """Have partitions checked whose positions are outside their logs."""
        if lost := [place for reader in self.readers.values() for place in reader.lost()]:
            self.listener.lost(lost)
            self.lanes.sources.lost(self.lanes.owned, lost)
            if self.trees is not None:
                self.trees.lost(lost, now)

    def _follow_trees(self, now: int) -> None:
        if self.trees is None:
            return
        self.trees.follow(self.leadership.incarnation, now)
        if self.trees.is_due(now):
            known = self.machine.learner.neighbours
            links = [
                name for name, one in known.items() if one.may_talk and name not in self.isolated
            ]
            self.trees.step(links, now)

    def _stand_by(self, now: int) -> None:
        """Report what this worker has heard, as long as it has no lane."""
        if self.standing_by is not None:
            has_lanes = self.lanes.owned or not self.machine.has_routed
            heard = None if has_lanes else self.machine.learner.pending.versions.routed
            self.standing_by.step(heard, now)

    def update_gate(self) -> None:
        """Stop reading what is isolated or paused, and resume what no longer is."""
        gate, lanes, now = self.lanes.sources.gate, self.lanes, self.clock.now_ms()
        orders = self.listener.orders
        lanes.pause_subjects(orders.paused_subjects, now)
        shut = self.machine.router.unread()
        gives_way = self.machine.probing.reply.is_holding
        holding = gives_way or self.changes.is_held(orders.change)
        wanted = (self.isolated, orders.paused, shut, holding)
        if gate.wake(now) or wanted != (gate.isolated, gate.paused, gate.shut, gate.holding):
            gate.isolated, gate.paused, gate.shut, gate.holding = wanted
            lanes.sources.settle(lanes.owned, now)

    # -- decisions and effects --------------------------------------------------------------

    def step(self, input_: Input) -> None:
        """Have the machine decide; perform its effects."""
        for effect in self.machine.step(input_):
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        """Perform an effect of the machine; what a leader writes goes to the control topics."""
        if isinstance(effect, WriteHeartbeat) and self.trees is not None:
            beat = replace(effect.heartbeat, colour=self.trees.colour, trees=self.trees.status)
            effect = WriteHeartbeat(beat)
        if isinstance(effect, WriteSubscribed):
            # It refers to what was read: when it is written, `clients` may be another topic.
            effect = WriteSubscribed(replace(effect.ack, topic_id=self.listener.clients_read))
        if isinstance(effect, Write):
            self.leadership.ask(effect)
            return
        match effect:
            case EnsureEndpoint(endpoint, message_class):
                self.targets.ensure(endpoint, message_class, self.clock.now_ms())
            case Relinked():
                self.changes.relink(effect, self.clock.now_ms())
            case Reroute(in_force, cuts):
                self.lanes.cut(in_force, cuts)
            case ResumeSource(stop):
                self.lanes.resume(stop)
            case RestartLeadership():
                for input_ in self.leadership.stop():
                    self.step(input_)
            case RepeatLearned():
                self.listener.tell_again()
            case ReadAgain(neighbour):
                self.listener.read_again(neighbour)
            case StartWithout(neighbour):
                self.listener.start_without(neighbour)
            case BecameReady():
                log.info("node.ready")
            case Note():
                getattr(log, effect.level)(effect.event, **effect.fields)
            case _:
                assert_never(effect)

    # -- the end --------------------------------------------------------------------------

    def hand_back(self) -> None:
        """Commit what is open, and give up all lanes at exact positions."""
        self.lanes.hand_back(sorted(self.lanes.owned))
        self.lanes.keep(frozenset())
        if self.standing_by is not None:
            self.standing_by.close()

    def abandon(self) -> None:
        """Give up all lanes; what is not committed never happened."""
        self.background.close()
        for number in list(self.lanes.owned):
            self.lanes.drop(number)
