"""The control plane of one node as a state machine: `step(input) -> effects`, no I/O, no clock.

The caller's duties, in this order:

1. Feed every record of the own `clients` topic and of the neighbours' control topics as inputs,
   then `ClientsCaughtUp` and `NeighbourCaughtUp` (or `NeighbourUnreachable`).
2. Perform effects in the order given. `Reroute` means that the router has changed: each owned
   lane commits a cut at its present positions, and then feeds `LaneApplied`.
3. Write all control records of one `step` in one transaction.
4. Feed `Ticked` at least every 100 ms.

Spec: DESIGN 4.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from mesh.core.controls import filters_at
from mesh.core.local_links import local_links
from mesh.core.queues import Nearness
from mesh.core.routing import Router
from mesh.model.control import UNKNOWN_LINEAGE, ChangeStatus, Lineage, Stage, change_version
from mesh.model.controls import ControlKind
from mesh.model.effects import (
    BecameReady,
    Effect,
    Note,
    ReadAgain,
    Relinked,
    RepeatLearned,
    Reroute,
    RestartLeadership,
    ResumeSource,
    WriteLearned,
)
from mesh.model.inputs import (
    AckRead,
    AdvertRead,
    BeatRead,
    ChangeRead,
    ClientsCaughtUp,
    ClientsReset,
    DrainStepDone,
    EndpointMade,
    EndpointSeen,
    GapFound,
    GapMended,
    IdentityRead,
    Input,
    LaneApplied,
    LeadershipLost,
    LeadershipTaken,
    LinkDisabled,
    LinkEnabled,
    LinksRead,
    LossAccepted,
    MarkRead,
    NeighbourAwaited,
    NeighbourCaughtUp,
    NeighbourLags,
    NeighbourReset,
    NeighbourUnreachable,
    OutboxFull,
    OwnAdvertRead,
    OwnControlCaughtUp,
    OwnControlReset,
    OwnMarkRead,
    QueueSeen,
    SourceResumed,
    SourceStopped,
    StreamReset,
    SubscriptionElsewhere,
    SubscriptionRead,
    SubscriptionRefused,
    Ticked,
)
from mesh.model.link_modes import CLOSED
from mesh.model.topology import Topology
from mesh.node.closing import disable
from mesh.node.control_repair import ControlRepair
from mesh.node.demands import Demands
from mesh.node.gates import STILL
from mesh.node.leader import Leader
from mesh.node.learner import Learner
from mesh.node.probing import Probing
from mesh.node.queues import OwnQueues
from mesh.node.relinking import CHANGE, UNCHANGED, link_changes, scopes_read
from mesh.node.rounds import CLIENTS, Round, neighbour_of

OF_NEIGHBOUR = (
    AdvertRead,
    MarkRead,
    BeatRead,
    NeighbourReset,
    StreamReset,
    NeighbourCaughtUp,
    NeighbourLags,
    NeighbourUnreachable,
    AckRead,
    GapFound,
    GapMended,
    LinkDisabled,
    LinkEnabled,
)

ROUND_MS = 100
"""Least time between two changes of the routing; the first after a quiet time is at once. K25."""

REPORT_MS = 15_000
"""How long after a topic is read again lanes report once more. All workers of a node have seen it
by then; what one of them had read of a report before it saw that counts for nothing there."""

LEARN_MS = 10_000
"""How long a round waits for workers to know what others knew of a link that was disabled."""


@dataclass(slots=True)
class NodeMachine:
    """One worker's view of its node.

    Attributes:
        topology: The mesh.
        node: Name of the node served.
        uuid: Its intrinsic identity.
        is_ready: Every input is proven or frozen, and the first routing is in force.
        in_force: Versions that the router works by.
        has_routed: Whether the router may be asked: before the first round it knows nothing.
        change: Number and stage of the newest change of the topology, if one is known.
        awaited: Neighbours whom that change has wait for one another: see `LinkChanges`.
        cluster_id: Of the node's Kafka cluster; without it links are not probed.
        number: Of the topology; 0 for a file.
        demands: What is known of consumers of queues.
        patience_ms: How long a change of interest waits for the topics of new endpoints.
    """

    topology: Topology
    node: str
    uuid: str
    change: tuple[int, Stage] | None = None
    cluster_id: str = ""
    patience_ms: int = 0
    number: int = 0
    lineage: Lineage = UNKNOWN_LINEAGE
    learner: Learner = field(init=False)
    leader: Leader | None = None
    is_ready: bool = False
    in_force: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    has_routed: bool = False
    awaited: Sequence[str] = ()
    probing: Probing = field(init=False)
    demands: Demands = field(init=False)
    _lanes: dict[int, Mapping[str, tuple[int, int]]] = field(default_factory=dict)
    _round: Round | None = None
    _round_at_ms: int = -ROUND_MS
    _now_ms: int = 0
    _control_repair: ControlRepair = field(default_factory=ControlRepair)
    _target: Topology | None = None
    _followed: tuple[int, int] = UNCHANGED
    _reports_ms: int | None = None

    def __post_init__(self) -> None:
        """Build the learner for the node's links."""
        self.demands = Demands(self.node)
        links = local_links(self.topology, self.node)
        offered = scopes_read(self.topology, self.node)
        static = filters_at(self.topology, self.node, ControlKind.STATIC)
        covering = self.topology.covering
        router = Router(links, near=Nearness(self.topology, self.node))
        self.learner = Learner(self.node, self.uuid, links, router, offered, static, covering)
        self.learner.queues = OwnQueues.at(self.node, self.topology)
        number = max(0, self.number)
        self.learner.topology_number, self.learner.lineage = number, self.lineage
        if self.change is not None:
            self.learner.versions.note(CHANGE, change_version(*self.change))
            self.learner.cuts.number = number
        self.probing = Probing(self.topology, self.node, self.uuid, self.cluster_id, number)

    @property
    def router(self) -> Router:
        """The routing in force, asked by the lanes for every subject."""
        return self.learner.router

    def step(self, input_: Input) -> Sequence[Effect]:
        """Take one input; return what must be done, in order."""
        if isinstance(input_, OF_NEIGHBOUR) and input_.neighbour not in self.learner.neighbours:
            return [*self._turn_rounds()]  # read before its link was removed
        taken = [*self._take(input_)]
        # There are many of these: what they bring waits for a mark, or for the round under way.
        if isinstance(input_, AdvertRead | OwnAdvertRead) or (
            isinstance(input_, SubscriptionRead) and self._round is not None
        ):
            return taken
        probed = self.probing.step(
            self.learner, self.leader, self._now_ms, self._lanes, is_ready=self.is_ready
        )
        return [*taken, *probed, *self._turn_rounds(), *self._tell_change()]

    def _take(self, input_: Input) -> Iterator[Effect]:
        learner = self.learner
        match input_:
            case Ticked(now_ms):
                self._now_ms = now_ms
                yield from self._tick(now_ms)
            case SubscriptionRead(offset, endpoint, filter_, asked):
                yield from learner.subscription_read(offset, endpoint, filter_, asked, self._now_ms)
            case SubscriptionRefused(offset):
                learner.clients_passed(offset)
            case SubscriptionElsewhere():
                yield from learner.own.read_elsewhere(input_)
            case ClientsCaughtUp():
                learner.clients_read(self._now_ms)
            case AdvertRead(neighbour, scope, filter_, interest):
                learner.advert_read(neighbour, scope, filter_, interest)
            case MarkRead(neighbour, scope, mark):
                learner.mark_read(neighbour, scope, mark)
            case BeatRead(neighbour, heartbeat):
                self.demands.hear(heartbeat.queues, self._now_ms)
                if learner.beat_read(neighbour, heartbeat, self._now_ms):
                    yield Note("neighbour.up", f"{neighbour} beats again")
            case NeighbourCaughtUp(neighbour):
                learner.caught_up(neighbour, self._now_ms)
            case NeighbourReset() | StreamReset() | ClientsReset() | OwnControlReset():
                yield from self._reread(input_)
            case NeighbourUnreachable(neighbour, learned):
                learner.freeze(neighbour, learned)
                yield Note("neighbour.frozen", f"{neighbour} could not be reached at the start")
            case NeighbourLags(neighbour, learned, versions):
                learner.recall(neighbour, learned, versions)
            case LinkDisabled() | LinkEnabled():
                yield from self._turn_link(input_)
            case AckRead():
                yield from self.leader.acknowledged(input_) if self.leader is not None else ()
            case LaneApplied(lane, in_force):
                self._lanes[lane] = in_force
                if learner.lacks(in_force):
                    yield RepeatLearned()
            case LinksRead() | IdentityRead() | DrainStepDone():
                self.probing.take(input_, learner)
            case LeadershipTaken() | LeadershipLost():
                self._follow_leadership(input_)
            case OwnAdvertRead() | OwnMarkRead():
                if self.leader is not None and self.leader.has_offered:
                    # Before that the leader itself compares everything, when it begins.
                    self._control_repair.read(self.leader, learner, input_, self._now_ms)
            case OwnControlCaughtUp():
                self._control_repair.caught_up = self.probing.has_read = True
            case SourceStopped() | SourceResumed() | LossAccepted() | GapFound() | GapMended():
                yield from self._follow_source(input_)
            case OutboxFull() | NeighbourAwaited():
                learner.faults.link_reported(input_)
            case ChangeRead(number, stage, topology, lineage):
                yield from self._follow_change(number, stage, topology, lineage)
            case EndpointMade() | EndpointSeen():
                learner.endpoint_reported(input_)
            case QueueSeen(queue, room):
                self.demands.see(queue, room)
            case _:
                assert_never(input_)

    def _follow_source(
        self, input_: SourceStopped | SourceResumed | LossAccepted | GapFound | GapMended
    ) -> Iterator[Effect]:
        for effect in self.learner.faults.take(input_):
            if self.leader is not None or isinstance(effect, ResumeSource):
                yield effect

    def _follow_leadership(self, input_: LeadershipTaken | LeadershipLost) -> None:
        if isinstance(input_, LeadershipLost):
            self.leader = None
            self._control_repair.forget()
            self.probing.follow()
            return
        links, epoch = self.learner.links, input_.epoch
        self.leader = Leader(self.node, epoch, links, input_.written, input_.stops, self.awaited)
        self.learner.request_round()
        self.learner.own.tell_again()  # of leases that ended: who led before may not have written
        self.probing.lead(input_.links)

    def _reread(
        self, input_: NeighbourReset | StreamReset | ClientsReset | OwnControlReset
    ) -> Iterator[Effect]:
        """Follow a control topic that lost its end or was recreated. Spec: K16, K21, K23, K24."""
        learner, leader = self.learner, self.leader
        match input_:
            case NeighbourReset(neighbour):
                yield Note("control.recreated", f"the control topic of {neighbour} is read again")
                learner.read_again(neighbour, is_reset=True)
                yield from self._await_lanes(neighbour)
            case StreamReset(neighbour):
                yield from leader.ask_again([neighbour]) if leader is not None else ()
            case ClientsReset():
                yield Note("control.recreated", "the node's clients topic is read again")
                learner.clients_reset()
                yield from self._await_lanes(neighbour_of(CLIENTS))
                yield from [RestartLeadership()] if leader is not None else ()
            case OwnControlReset():
                yield Note("control.recreated", "a control topic of this node is written again")
                self._control_repair.caught_up = False
                yield from [RestartLeadership()] if leader is not None else ()
            case _:
                assert_never(input_)

    def _await_lanes(self, of: str) -> Iterator[Reroute]:
        """Have lanes report again what they route a neighbour by; without a name, `clients`.

        Versions read from the former topic mean nothing any more. The round under way is announced
        once more, because a lane that has nothing to do would not report by itself.
        """
        self._lanes = {
            lane: {s: v for s, v in in_force.items() if neighbour_of(s) != of}
            for lane, in_force in self._lanes.items()
        }
        self._reports_ms = self._now_ms + REPORT_MS
        if self._round is not None:
            yield Reroute(self._round.in_force, {})

    def _report(self, now_ms: int) -> Iterator[Reroute]:
        """Report once more by what lanes route, for a mate that has read that too early."""
        if self._reports_ms is not None and now_ms >= self._reports_ms:
            self._reports_ms = None
            if self.has_routed:
                yield Reroute(self.in_force, {})

    def _turn_link(self, input_: LinkDisabled | LinkEnabled) -> Iterator[WriteLearned]:
        """Follow what operators want of a link; what is known of its other end is kept. K21."""
        learner, name = self.learner, input_.neighbour
        if isinstance(input_, LinkEnabled):
            learner.begin_again(name)
            return
        disable(learner.neighbours[name], self.router)
        learner.freeze(name, input_.learned, input_.versions)
        if (leader := self.leader) is not None:
            lanes = list(self._lanes.values())
            remembering = leader.remembering
            yield from remembering.look(learner.neighbours, lanes, self._now_ms, at_once=True)

    def _tick(self, now_ms: int) -> Iterator[Effect]:
        self.demands.expire(now_ms)
        yield from self._report(now_ms)
        # Who does not lead does not know who knows: it goes by time alone.
        known = -1 if self.leader is None else self.leader.completion.state(CLIENTS).complete
        self.learner.forget_left(self.learner.queues.left_long_ago(known, now_ms))
        for name in self.learner.silent(now_ms):
            yield Note("neighbour.down", f"{name} has not been heard for ten beats")
        for name in self.learner.doubted(now_ms):
            yield Note("neighbour.doubted", f"what {name} offers stays unproven: it is read again")
            self.learner.read_again(name, is_reset=False)
            yield ReadAgain(name)
        if self.leader is not None:
            yield from self.leader.heed_silence(self.learner)
            yield from self.learner.ended_leases(now_ms)
            yield from self._beat(self.leader, self._change_status())
            if len(self._lanes) == self.topology.nodes[self.node].lanes:
                lanes = list(self._lanes.values())
                yield from self.leader.remembering.look(self.learner.neighbours, lanes, now_ms)
            if self._round is None:
                # In a round the table is ahead of what may be offered.
                yield from self._control_repair.mend(self.leader, self.learner, now_ms)

    # -- changes of the topology --------------------------------------------------------------

    def _follow_change(
        self, number: int, stage: Stage, topology: Topology | None, lineage: Lineage
    ) -> Iterator[Effect]:
        """Follow an operator's change in the next round; before the first one, at once. K28."""
        version = change_version(number, stage)
        if self.change is not None and version <= change_version(*self.change):
            return
        self.change = (number, stage)
        self.learner.versions.note(CHANGE, version)
        if stage in (Stage.SWITCH, Stage.RUN):
            self.learner.cuts.number = number
            self.learner.followed_next = number, lineage
        if stage in (Stage.RUN, Stage.ABORT):
            self.probing.change_ended()
        if topology is not None and topology != self.topology:
            self._target = topology
            if not self.has_routed:
                yield self._relink(topology)

    def _relink(self, topology: Topology) -> Relinked:
        changes = link_changes(self.topology, topology, self.node)
        self.topology, self._target, self.awaited = topology, None, changes.awaited
        self.probing.relink(topology, *(self.change or (self.number, Stage.SWITCH)))
        offered = scopes_read(topology, self.node)
        self.learner.queues.relink(topology)
        self.router.near = Nearness(topology, self.node)
        static = filters_at(topology, self.node, ControlKind.STATIC)
        self.learner.relink(local_links(topology, self.node), offered, changes, static)
        self.learner.covering = topology.covering
        return Relinked(topology, changes.gone, changes.added)

    def _change_status(self) -> ChangeStatus | None:
        if self.change is None:
            return None
        number, stage = self.change
        has_followed = self._followed >= change_version(number, stage)
        leader = self.leader
        open_links: Sequence[tuple[str, str]] = ()
        is_done = stage in (Stage.RUN, Stage.ABORT) or (has_followed and stage is Stage.HOLD)
        if not is_done and has_followed and leader is not None and leader.has_offered:
            is_done = leader.is_linked(self.learner)
            if not is_done and leader.knows_awaited(self.learner):
                open_links = leader.open_links()
        return ChangeStatus(number, stage, is_done, open_links)

    def _tell_change(self) -> Iterator[Effect]:
        """Report at once how far a topology change is, since sources hold meanwhile. Spec: K28."""
        leader = self.leader
        if leader is None or self.change is None or not leader.beating.has_begun:
            return
        change = self._change_status()
        if change is not None and change.is_done and change != leader.beating.change:
            yield from self._beat(leader, change)

    def _beat(self, leader: Leader, change: ChangeStatus | None) -> Iterator[Effect]:
        yield from leader.beat(
            self.learner, self._now_ms, is_ready=self.is_ready, change=change, demands=self.demands
        )

    # -- rounds: at most one change of the routing is under way ------------------------------

    def _turn_rounds(self) -> Iterator[Effect]:
        if self._round is not None and self._is_in_force(self._round):
            yield from self._close_round(self._round)
        if self._round is None and self._may_begin():
            yield from self._begin_round()

    def _may_begin(self) -> bool:
        return (
            (self.is_ready or self.learner.is_synced)
            and (self.learner.has_news or self._owes_offers)
            and self.probing.is_known
            and self._now_ms - self._round_at_ms >= ROUND_MS
            and not self._awaits_topics()
        )

    @property
    def _owes_offers(self) -> bool:
        """Whether who has taken the lead has withheld its offers, and knows enough by now."""
        is_new = self.leader is not None and not self.leader.has_offered
        return is_new and not self.learner.stays_behind(self._lanes.get(0, {}))

    def _awaits_topics(self) -> bool:
        """Return whether the topic of an endpoint is being made: what is wanted for it can wait."""
        making = self.learner.making
        for endpoint, since_ms in list(making.items()):
            making[endpoint] = since_ms or self._now_ms  # seen before the first tick
            if self._now_ms - making[endpoint] >= self.patience_ms:
                del making[endpoint]
        return bool(making)

    def _begin_round(self) -> Iterator[Effect]:
        self._round_at_ms = self._now_ms
        if self._target is not None:
            yield self._relink(self._target)
        self._round = self.learner.begin_round()
        self.in_force = self._round.in_force
        self.has_routed = True
        yield Reroute(self._round.in_force, self._round.cuts)
        if self._is_in_force(self._round):
            yield from self._close_round(self._round)

    def _is_in_force(self, round_: Round) -> bool:
        """Return whether every lane of the node has committed a round's cut. Spec: K25."""
        if self.leader is None:
            return True
        # No other change waits for what an open link gives way by.
        wanted = {s: v for s, v in round_.in_force.items() if s != STILL}
        if self._now_ms - self._round_at_ms > LEARN_MS:
            # A worker that read less of a neighbour, before its link was disabled, may know no
            # more of it now.
            modes = self.router.modes
            closed = [name for name, mode in modes.items() if mode in CLOSED]
            wanted = {s: v for s, v in wanted.items() if neighbour_of(s) not in closed}
        # A mate may follow a change before it knew all that this round brings: of a link that
        # the change removes its lanes say nothing any more.
        gone = link_changes(self.topology, self._target, self.node).gone if self._target else ()
        left = {s: v for s, v in wanted.items() if neighbour_of(s) not in gone}
        return all(
            lane in self._lanes
            and _reaches(self._lanes[lane], left if self._is_ahead(lane, wanted) else wanted)
            for lane in range(self.topology.nodes[self.node].lanes)
        )

    def _is_ahead(self, lane: int, wanted: Mapping[str, tuple[int, int]]) -> bool:
        """Return whether a lane works by a later topology than a round of this worker."""
        return self._lanes[lane].get(CHANGE, UNCHANGED) > wanted.get(CHANGE, UNCHANGED)

    def _close_round(self, round_: Round) -> Iterator[Effect]:
        self._round = None
        self._followed = round_.in_force.get(CHANGE, self._followed)
        self.probing.in_force(round_.in_force)
        if not self.is_ready:
            self.is_ready = True
            yield BecameReady()
        if self.leader is not None:
            if not self.leader.has_offered and self.learner.is_behind(self._lanes.get(0, {})):
                # It would offer less than its lane has routed by. Who led before has acknowledged
                # that, and neighbours that forget it send nothing more of it. The lane reads
                # nothing meanwhile either. Spec: K16, K21.
                return
            lanes = list(self._lanes.values())
            yield from self.leader.offer(self.learner, round_, lanes)
            yield from self.leader.acknowledge()


def _reaches(lane: Mapping[str, tuple[int, int]], wanted: Mapping[str, tuple[int, int]]) -> bool:
    return all(lane.get(source, (-1, -1)) >= version for source, version in wanted.items())
