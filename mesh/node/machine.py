"""The control plane of one node as a state machine: `step(input) -> effects`, no I/O, no clock.

The caller's duties, in this order:

1. Feed every record of the own `clients` topic and of the neighbours' control topics as inputs,
   then `ClientsCaughtUp` and `NeighbourCaughtUp` (or `NeighbourUnproven`).
2. Perform effects in the order given. `Reroute` means that the router has changed: each owned
   lane commits a cut at its present positions, and then feeds `LaneApplied`.
3. Write all control records of one `step` in one transaction.
4. Feed `Ticked` every 100 ms, or as soon afterwards as a turn allows.

Spec: DESIGN 4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from mesh.core.interest_controls import filters_at
from mesh.core.local_links import local_links
from mesh.core.queues import Nearness
from mesh.core.routing import Router
from mesh.model.control import (
    NEVER,
    UNKNOWN_LINEAGE,
    ChangeStatus,
    Lineage,
    Stage,
    Version,
    change_version,
)
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
    StartWithout,
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
    NeighbourUnproven,
    OutboxFull,
    OwnAdvertRead,
    OwnBeatRead,
    OwnControlCaughtUp,
    OwnControlReset,
    OwnMarkRead,
    QueueSeen,
    RoundRequested,
    SourceResumed,
    SourceStopped,
    StreamReset,
    SubscriptionElsewhere,
    SubscriptionRead,
    SubscriptionRefused,
    Ticked,
    TopologyLost,
    VersionsVoided,
)
from mesh.model.interest_controls import ControlKind
from mesh.model.interest_inputs import CHANGE, CLIENTS, STILL, VersionByInput, neighbour_of
from mesh.model.link_modes import CLOSED
from mesh.model.topology import Topology
from mesh.node.demands import Demands
from mesh.node.foreign_records import ForeignRecords
from mesh.node.leader import Leader
from mesh.node.learner import Learner
from mesh.node.link_disabling import disable
from mesh.node.probing import Probing
from mesh.node.queues import OwnQueues
from mesh.node.relinking import link_changes, scopes_read
from mesh.node.rounds import Round

OF_NEIGHBOUR = (
    AdvertRead,
    MarkRead,
    BeatRead,
    NeighbourReset,
    StreamReset,
    NeighbourCaughtUp,
    NeighbourLags,
    NeighbourUnproven,
    AckRead,
    GapFound,
    GapMended,
    LinkDisabled,
    LinkEnabled,
)

THAT_WAIT = (AdvertRead, OwnAdvertRead, VersionsVoided, RoundRequested)
"""Inputs that change nothing by themselves: entries, of which there are many, take effect with
their mark, and rounds are considered at the next tick. So are subscriptions while a round is under
way: they wait for the next one."""

ROUND_MS = 100
"""Minimum time between two changes of the routing; the first after a quiet time is at once. K25."""

REPORT_MS = 15_000
"""How long after a topic is read again lanes report once more. All workers of a node have noticed
it by then; a report that one of them had read before that does not count there."""

LEARN_MS = 10_000
"""How long a round waits for workers to learn what others knew of a disabled link."""


@dataclass(slots=True)
class NodeMachine:
    """One worker's view of its node.

    Attributes:
        topology: The mesh.
        node: Name of the node served.
        uuid: Its intrinsic identity.
        is_ready: Every input is proven or frozen, and the first routing is in force.
        in_force: Versions that the router works by.
        has_routed: Whether the router may be used: before the first round it knows nothing.
        change: Number and stage of the newest change of the topology, if one is known.
        awaited: Neighbours that have to wait for one another in that change: see `LinkChanges`.
        cluster_id: Of the node's Kafka cluster; without it links are not probed.
        number: Of the topology; 0 for a file.
        demands: What is known of consumers of queues.
        patience_ms: How long a change of interest waits for the topics of new endpoints.
        lost_topology: Number of the topology that lanes have worked by and that `mesh.config` no
            longer holds: they read nothing. 0 for none.
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
    in_force: VersionByInput = field(default_factory=dict)
    has_routed: bool = False
    awaited: Sequence[str] = ()
    lost_topology: int = 0
    probing: Probing = field(init=False)
    demands: Demands = field(init=False)
    _lanes: dict[int, VersionByInput] = field(default_factory=dict)
    _round: Round | None = None
    _round_at_ms: int = -ROUND_MS
    _now_ms: int = 0
    _foreign: ForeignRecords = field(default_factory=ForeignRecords)
    _target: Topology | None = None
    _followed: Version = NEVER
    _taken_by: int | None = None
    _reports_ms: int | None = None

    def __post_init__(self) -> None:
        """Build the learner for the node's links."""
        self.demands = Demands(self.node)
        links = local_links(self.topology, self.node)
        number = max(0, self.number)
        self.learner = Learner(
            node=self.node,
            uuid=self.uuid,
            links=links,
            router=Router(links, near=Nearness(self.topology, self.node)),
            offered=scopes_read(self.topology, self.node),
            static=filters_at(self.topology, self.node, ControlKind.STATIC),
            covering=self.topology.covering,
            queues=OwnQueues.at(self.node, self.topology),
            topology_number=number,
            lineage=self.lineage,
        )
        if self.change is not None:
            self.learner.pending.versions.note(CHANGE, change_version(*self.change))
            self.learner.pending.cuts.number = number
        self.probing = Probing(self.topology, self.node, self.uuid, self.cluster_id, number)

    @property
    def serves(self) -> bool:
        """Whether the node does its work, as far as this worker knows."""
        return self.is_ready and not self.lost_topology

    def _is_behind_lane(self, number: int) -> bool:
        """Return whether lane 0 may have been taken under a later topology than that of a number.

        The node would report outdated facts: its file is older, and what is in force is not known
        yet.
        """
        return self._taken_by is None or number < self._taken_by

    @property
    def router(self) -> Router:
        """The routing in force, which the lanes use for every subject."""
        return self.learner.router

    def step(self, input_: Input) -> Sequence[Effect]:
        """Take one input; return what must be done, in order."""
        if isinstance(input_, OF_NEIGHBOUR) and input_.neighbour not in self.learner.neighbours:
            return [*self._turn_rounds()]  # read before its link was removed
        taken = [*self._take(input_)]
        if isinstance(input_, THAT_WAIT) or (
            isinstance(input_, SubscriptionRead) and self._round is not None
        ):
            return taken
        probed = self.probing.step(
            self.learner,
            self.leader,
            self._now_ms,
            self._lanes,
            is_ready=self.is_ready,
            may_tell=not self._is_behind_lane(self.learner.topology_number),
        )
        return [*taken, *probed, *self._turn_rounds(), *self._tell_change()]

    def _take(self, input_: Input) -> Iterator[Effect]:
        """Hand an input to the part of the node that it concerns; mypy names one left out."""
        learner, now = self.learner, self._now_ms
        clients, hearing = learner.clients, learner.hearing
        match input_:
            case Ticked(now_ms):
                self._now_ms = now_ms
                yield from self._tick(now_ms)
            case SubscriptionRead(offset, endpoint, filter_, asked):
                yield from clients.subscription_read(offset, endpoint, filter_, asked, now)
            case SubscriptionRefused() | SubscriptionElsewhere() | ClientsCaughtUp():
                yield from self._read_clients(input_)
            case AdvertRead(neighbour, scope, filter_, interest):
                hearing.advert_read(neighbour, scope, filter_, interest)
            case MarkRead(neighbour, scope, mark):
                hearing.mark_read(neighbour, scope, mark)
            case BeatRead(neighbour, heartbeat):
                self.demands.hear(heartbeat.queues, now)
                if hearing.beat_read(neighbour, heartbeat, now):
                    yield Note("neighbour.up", {"neighbour": neighbour})
            case NeighbourCaughtUp(neighbour):
                hearing.caught_up(neighbour, now)
            case NeighbourReset() | StreamReset() | ClientsReset() | OwnControlReset():
                yield from self._reread(input_)
            case NeighbourUnproven() | NeighbourLags():
                yield from self._go_by_learned(input_)
            case LinkDisabled() | LinkEnabled():
                yield from self._turn_link(input_)
            case AckRead():
                yield from self.leader.acknowledged(input_) if self.leader is not None else ()
            case LaneApplied() | VersionsVoided() | RoundRequested():
                yield from self._follow_lane(input_)
            case LinksRead() | IdentityRead() | DrainStepDone():
                self.probing.take(input_, learner)
            case LeadershipTaken() | LeadershipLost():
                self._follow_leadership(input_)
            case OwnAdvertRead() | OwnMarkRead() | OwnBeatRead() | OwnControlCaughtUp():
                self._read_own_control(input_)
            case SourceStopped() | SourceResumed() | LossAccepted() | GapFound() | GapMended():
                yield from self._follow_source(input_)
            case OutboxFull() | NeighbourAwaited():
                learner.faults.link_reported(input_)
            case TopologyLost(number):
                self.lost_topology = number
            case ChangeRead(number, stage, topology, lineage):
                yield from self._follow_change(number, stage, topology, lineage)
            case EndpointMade() | EndpointSeen() | QueueSeen():
                self._see_endpoint(input_)
            case _:
                assert_never(input_)

    def _read_clients(
        self, input_: SubscriptionRefused | SubscriptionElsewhere | ClientsCaughtUp
    ) -> Iterator[Effect]:
        """Follow records of `clients` that are not usable subscriptions. Spec: K13."""
        clients = self.learner.clients
        match input_:
            case SubscriptionRefused(offset):
                clients.passed(offset)
            case SubscriptionElsewhere():
                yield from clients.wanted.read_elsewhere(input_)
            case ClientsCaughtUp():
                yield from clients.read_to_end(self._now_ms)

    def _follow_lane(
        self, input_: LaneApplied | VersionsVoided | RoundRequested
    ) -> Iterator[RepeatLearned]:
        """Follow what a lane routes by, or has stopped waiting for. Spec: K16, K25."""
        match input_:
            case LaneApplied(lane, in_force, topology):
                self._lanes[lane] = in_force
                if lane == 0 and topology is not None:
                    self._taken_by = topology
                if self.learner.lacks(in_force):
                    yield RepeatLearned()
            case VersionsVoided(versions):
                self.learner.pending.versions.void(versions)
            case RoundRequested():
                self.learner.request_round()

    def _read_own_control(
        self, input_: OwnAdvertRead | OwnMarkRead | OwnBeatRead | OwnControlCaughtUp
    ) -> None:
        """Compare the own control topic with what this leader wrote. Spec: K16."""
        leader = self.leader
        match input_:
            case OwnControlCaughtUp():
                self._foreign.caught_up = self.probing.has_read = True
            case OwnBeatRead() if leader is not None:
                self._foreign.read_beat(leader, input_, self._now_ms)
            case OwnAdvertRead() | OwnMarkRead() if leader is not None:
                self._foreign.read(leader, self.learner, input_, self._now_ms)
            case OwnAdvertRead() | OwnMarkRead() | OwnBeatRead():
                pass  # the leader compares it

    def _see_endpoint(self, input_: EndpointMade | EndpointSeen | QueueSeen) -> None:
        match input_:
            case EndpointMade(endpoint):
                self.learner.clients.endpoint_made(endpoint)
            case EndpointSeen(endpoint, status):
                self.learner.faults.endpoint_seen(endpoint, status)
            case QueueSeen(queue, room):
                self.demands.see(queue, room)

    def _go_by_learned(self, input_: NeighbourUnproven | NeighbourLags) -> Iterator[Note]:
        """Go by what the node has acknowledged of a neighbour. Spec: K21."""
        match input_:
            case NeighbourUnproven(neighbour, learned, proven):
                self.learner.hearing.start_without(neighbour, learned, proven)
                why = "what it offers is unproven" if input_.is_reached else "it was not reached"
                yield Note("neighbour.frozen", {"neighbour": neighbour, "text": why})
            case NeighbourLags(neighbour, learned, versions):
                self.learner.hearing.recall(neighbour, learned, versions)

    def _follow_source(
        self, input_: SourceStopped | SourceResumed | LossAccepted | GapFound | GapMended
    ) -> Iterator[Effect]:
        for effect in self.learner.faults.take(input_):
            if self.leader is not None or isinstance(effect, ResumeSource):
                yield effect

    def _follow_leadership(self, input_: LeadershipTaken | LeadershipLost) -> None:
        if isinstance(input_, LeadershipLost):
            self.leader = None
            self._foreign.forget()
            self.probing.follow()
            return
        self._taken_by = None  # lane 0 comes with it, and reports
        self._followed = NEVER  # while another led, nobody here waited for lanes
        links, epoch = self.learner.links, input_.epoch
        written = {scope: dict(entries) for scope, entries in input_.written.items()}
        self.leader = Leader(self.node, epoch, links, written, input_.stops, self.awaited)
        self.learner.request_round()
        # Subscriptions whose leases ended: the former leader may not have written that.
        self.learner.clients.wanted.tell_again()
        self.probing.lead(input_.links)

    def _reread(
        self, input_: NeighbourReset | StreamReset | ClientsReset | OwnControlReset
    ) -> Iterator[Effect]:
        """Follow a control topic that lost its end or was recreated. Spec: K16, K21, K23, K24."""
        learner, leader = self.learner, self.leader
        match input_:
            case NeighbourReset(neighbour):
                yield Note("control.recreated", {"of": neighbour, "text": "it is read again"})
                learner.hearing.read_again(neighbour, is_reset=True)
                yield from self._await_lanes(lambda one: neighbour_of(one) == neighbour)
            case StreamReset(neighbour):
                yield from leader.ask_again([neighbour]) if leader is not None else ()
            case ClientsReset():
                yield Note("control.recreated", {"of": CLIENTS, "text": "it is read again"})
                learner.clients.begin_again()
                yield from self._await_lanes(lambda one: one == CLIENTS)
                yield from [RestartLeadership()] if leader is not None else ()
            case OwnControlReset():
                yield Note("control.recreated", {"of": self.node, "text": "it is written again"})
                self._foreign.caught_up = False
                yield from [RestartLeadership()] if leader is not None else ()
            case _:
                assert_never(input_)

    def _await_lanes(self, is_read_again: Callable[[str], bool]) -> Iterator[Reroute]:
        """Have lanes report again which versions they route by, for inputs that are read again.

        Versions read from the former topic have lost their meaning. The round under way is
        announced once more, because an idle lane would not report by itself.
        """
        self._lanes = {
            lane: {one: v for one, v in in_force.items() if not is_read_again(one)}
            for lane, in_force in self._lanes.items()
        }
        self._reports_ms = self._now_ms + REPORT_MS
        if self._round is not None:
            yield Reroute(self._round.in_force, {})

    def _report(self, now_ms: int) -> Iterator[Reroute]:
        """Have lanes report once more, for another worker that has read that too early."""
        if self._reports_ms is not None and now_ms >= self._reports_ms:
            self._reports_ms = None
            if self.has_routed:
                yield Reroute(self.in_force, {})

    def _turn_link(self, input_: LinkDisabled | LinkEnabled) -> Iterator[WriteLearned]:
        """Apply what operators want of a link; what is known of its other end is kept. K21."""
        learner, name = self.learner, input_.neighbour
        if isinstance(input_, LinkEnabled):
            learner.hearing.begin_again(name)
            return
        disable(learner.neighbours[name], self.router)
        learner.hearing.freeze(name, input_.learned, input_.versions)
        if (leader := self.leader) is not None:
            lanes = list(self._lanes.values())
            remembering = leader.remembering
            yield from remembering.look(learner.neighbours, lanes, self._now_ms, at_once=True)

    def _tick(self, now_ms: int) -> Iterator[Effect]:
        """Do what is due: silent neighbours, ended leases, heartbeats, repairs."""
        self.demands.expire(now_ms)
        yield from self._report(now_ms)
        # Only the leader reads acknowledgements: other workers go by time alone.
        known = -1 if self.leader is None else self.leader.completion.state(CLIENTS).complete
        clients, hearing = self.learner.clients, self.learner.hearing
        clients.forget_left(clients.queues.left_long_ago(known, now_ms))
        for name in hearing.silent(now_ms):
            yield Note("neighbour.down", {"neighbour": name})
        for name in hearing.doubted(now_ms):
            yield Note("neighbour.doubted", {"neighbour": name})
            hearing.read_again(name, is_reset=False)
            yield ReadAgain(name)
        if not self.is_ready:
            for name in hearing.unproven(now_ms):
                yield StartWithout(name)
        if self.leader is not None:
            yield from self.leader.heed_silence(self.learner)
            yield from clients.ended_leases(now_ms)
            yield from self._beat(self.leader, self._change_status())
            if len(self._lanes) == self.topology.nodes[self.node].lanes:
                lanes = list(self._lanes.values())
                yield from self.leader.remembering.look(self.learner.neighbours, lanes, now_ms)
            if self._round is None:
                # In a round the table is ahead of what may be offered.
                yield from self._foreign.overwrite(self.leader, self.learner, now_ms)

    # -- changes of the topology --------------------------------------------------------------

    def _follow_change(
        self, number: int, stage: Stage, topology: Topology | None, lineage: Lineage
    ) -> Iterator[Effect]:
        """Follow an operator's change in the next round; before the first one, at once. K28.

        What is in force may be older than a change that has begun, or was aborted, since.
        """
        learner, version = self.learner, change_version(number, stage)
        is_news = self.change is None or version > change_version(*self.change)
        known = max(learner.pending.cuts.number, learner.topology_number)
        is_brought = stage.has_switched and number > known
        if is_news:
            self.change = (number, stage)
            learner.pending.versions.note(CHANGE, version)
        if is_brought:
            learner.follow_next(number, lineage)
        if not (is_news or is_brought):
            return
        if stage.is_over:
            self.probing.change_ended()
        if topology is not None and topology != self.topology:
            self._target = topology
            if not self.has_routed:
                yield self._relink(topology)

    def _relink(self, topology: Topology) -> Relinked:
        changes = link_changes(self.topology, topology, self.node)
        self.demands.keep([name for name in topology.nodes if name in self.topology.nodes])
        self.topology, self._target, self.awaited = topology, None, changes.awaited
        number, stage = self.change or (self.number, Stage.SWITCH)
        self.probing.relink(topology, self.learner.pending.cuts.number or number, stage)
        offered = scopes_read(topology, self.node)
        self.learner.clients.queues.relink(topology)
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
        is_done = stage.is_over or (has_followed and stage is Stage.HOLD)
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
            self.learner,
            self._now_ms,
            is_ready=self.serves,
            change=change,
            demands=self.demands,
            lost_topology=self.lost_topology,
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
            and (self.learner.pending.has_news or self._owes_offers)
            and self.probing.is_known
            and self._now_ms - self._round_at_ms >= ROUND_MS
            and not self._awaits_topics()
        )

    @property
    def _owes_offers(self) -> bool:
        """Whether a new leader has withheld its offers, and knows enough by now."""
        if self.leader is None or self.leader.has_offered:
            return False  # nearly always; the rest looks at everything lane 0 has followed
        learner = self.learner
        number, _ = learner.followed_next or (learner.topology_number, None)
        stays_behind = self._is_behind_lane(number) or learner.stays_behind(self._lanes.get(0, {}))
        return not stays_behind

    def _awaits_topics(self) -> bool:
        """Return whether an endpoint's topic is being created: interest for it can wait."""
        making = self.learner.clients.making
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
        # No other change waits for the step by which an open link gives way.
        wanted = {s: v for s, v in round_.in_force.items() if s != STILL}
        if self._now_ms - self._round_at_ms > LEARN_MS:
            # A worker that read less from a neighbour before its link was disabled may not be able
            # to learn more now.
            modes = self.router.modes
            closed = [name for name, mode in modes.items() if mode in CLOSED]
            wanted = {s: v for s, v in wanted.items() if neighbour_of(s) not in closed}
        # Another worker may follow a change before it knew all that this round brings: its lanes
        # no longer report on a link that the change removes.
        gone = link_changes(self.topology, self._target, self.node).gone if self._target else ()
        left = {s: v for s, v in wanted.items() if neighbour_of(s) not in gone}
        return all(
            lane in self._lanes
            and _reaches(self._lanes[lane], left if self._is_ahead(lane, wanted) else wanted)
            for lane in range(self.topology.nodes[self.node].lanes)
        )

    def _is_ahead(self, lane: int, wanted: VersionByInput) -> bool:
        """Return whether a lane works by a later topology than a round of this worker."""
        return self._lanes[lane].get(CHANGE, NEVER) > wanted.get(CHANGE, NEVER)

    def _close_round(self, round_: Round) -> Iterator[Effect]:
        self._round = None
        self._followed = round_.in_force.get(CHANGE, self._followed)
        self.probing.in_force(round_.in_force)
        if not self.is_ready:
            self.is_ready = True
            yield BecameReady()
        if self.leader is not None:
            learner = self.learner
            is_behind = self._is_behind_lane(learner.topology_number)
            is_behind |= learner.is_behind(self._lanes.get(0, {}))
            if not self.leader.has_offered and is_behind:
                # It would offer less than its lane has routed by. The former leader has
                # acknowledged that, and neighbours that forget it would send nothing more of it.
                # The lane reads nothing meanwhile either. Spec: K16, K21.
                return
            lanes = list(self._lanes.values())
            yield from self.leader.offer(self.learner, round_, lanes)
            yield from self.leader.acknowledge()


def _reaches(lane: VersionByInput, wanted: VersionByInput) -> bool:
    return all(lane.get(one, NEVER) >= version for one, version in wanted.items())
