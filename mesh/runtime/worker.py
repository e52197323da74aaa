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
from dataclasses import dataclass, field, replace
from typing import assert_never

import structlog

from mesh.lane.traces import Traces
from mesh.model.control import OutboxPosition
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
    WriteHeartbeat,
)
from mesh.model.inputs import Input, Ticked
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.node.machine import NodeMachine
from mesh.runtime.background.backlogs import Backlogs
from mesh.runtime.background.holding import Holds
from mesh.runtime.background.movers import Movers
from mesh.runtime.background.repairing import Repairs
from mesh.runtime.background.work import BackgroundWork
from mesh.runtime.control.changing import Changing, Connect, read_start
from mesh.runtime.control.leadership import Leadership
from mesh.runtime.control.leading import Write
from mesh.runtime.control.listening import Listener
from mesh.runtime.control.recalling import Recalling
from mesh.runtime.control.standing_by import StandingBy
from mesh.runtime.control.unread import Unread
from mesh.runtime.lanes.admission import Admission
from mesh.runtime.lanes.direct import LEAVE_S, DirectCopies
from mesh.runtime.lanes.looks import Looks
from mesh.runtime.lanes.owned import Lanes
from mesh.runtime.lanes.sources import Sources
from mesh.runtime.process.clock import Clock
from mesh.runtime.process.commits import Commits, CommitsAtOnce
from mesh.runtime.process.errands import LOOK_S, Errands
from mesh.runtime.process.intake import Intake, by_partition
from mesh.runtime.process.questions import Questions
from mesh.runtime.process.recall import Recall
from mesh.runtime.topics.provision import config_topic, make_node_topics, set_data_topics
from mesh.runtime.topics.targets import Targets
from mesh.runtime.topics.upkeep import Upkeep
from mesh.runtime.trees.service import TreeService
from mesh.transport.port import (
    Admin,
    KafkaCluster,
    Membership,
    Reader,
    Record,
    TopicPartition,
    Writer,
)
from mesh.trees.settings import Settings as TreeSettings

TICK_MS = 100
FLUSH_MS = 1_000

log = structlog.get_logger()


@dataclass(slots=True)
class Worker:
    """One worker of one node.

    Attributes:
        topology: What its file says; from the start on, what is in force.
        node: What it serves.
        kafka: Every Kafka cluster of the mesh that this node touches, by name.
        readers: One per Kafka cluster; `intake` reads them.
        clock: Time.
        errands: Takes lanes and the leadership beside the loop.
        new_uuid: Makes the node's identity at its very first start.
        connect: Opens Kafka clusters that a change of the topology brings.
        background: What it does beside its lanes; None before it knows its node.
        trees: Settings of the tree layer; None for a worker without.
        name: Tells it from the node's other workers, for people; without one it does not tell what
            it has heard while it stands by.
        traces: Told of each batch that its lanes commit; None if nobody follows traces.
        commits: Waits for commits of lanes.
    """

    topology: Topology
    node: str
    kafka: dict[str, KafkaCluster]
    readers: dict[str, Reader]
    intake: Intake
    clock: Clock
    errands: Errands
    new_uuid: Callable[[], str]
    machine: NodeMachine | None = None
    connect: Connect | None = None
    trees: TreeSettings | None = None
    name: str = ""
    traces: Traces | None = None
    commits: Commits = field(default_factory=CommitsAtOnce)
    _changing: Changing = field(init=False)
    _home: KafkaCluster = field(init=False)
    _names: TopicNames = field(init=False)
    _admission: Admission = field(init=False)
    _direct: Writer = field(init=False)
    _questions: Questions = field(init=False)
    _recalling: Recalling = field(init=False)
    _unread: Unread = field(init=False)
    _listener: Listener = field(init=False)
    _recall: Recall = field(init=False)
    _lane_recall: Recall = field(init=False)
    _leadership: Leadership = field(init=False)
    _lanes: Lanes | None = None
    background: BackgroundWork | None = None
    tree_service: TreeService | None = None
    _standing_by: StandingBy | None = None
    _looks: Looks = field(init=False)
    _ticked_ms: int = -TICK_MS
    _flushed_ms: int = 0
    _cut: tuple[str, ...] = ()
    _upkeep: Upkeep | None = None
    _targets: Targets | None = None
    _seen_ms: int = -1
    _admins: dict[str, Admin] = field(init=False)

    def __post_init__(self) -> None:
        """Make the node's topics."""
        self._names = TopicNames(self.topology.prefix)
        self._home = self.kafka[self.topology.nodes[self.node].kafka]
        self._home.admin().create([config_topic(self.topology)])
        control = TopicPartition(self._names.control(self.node), 0)
        config = TopicPartition(self._names.config(), 0)
        learned = TopicPartition(self._names.learned(self.node), 0)
        self._recall = Recall(self._home, [control, config, learned], self.clock.now_ms)
        self._admins = {name: kafka.admin() for name, kafka in self.kafka.items()}
        start = read_start(self.topology, self.node, self._recall.records(config))
        self._changing = Changing(
            self.node,
            start,
            self.kafka,
            self._admins,
            self.readers,
            self.intake,
            self.errands,
            self.connect,
        )
        self.topology = self._changing.topology
        make_node_topics(self._home.admin(), self.topology, self.node)
        set_data_topics(self._home.admin(), self.topology, self.node)
        self._questions = Questions(self.errands)
        self._admission = Admission(
            self._home,
            self._names,
            self.node,
            self._questions,
            self.clock.now_ms(),
            self._hand_back,
        )
        self._direct = self._home.writer("direct")
        lanes = range(self.topology.nodes[self.node].lanes)
        progress = [TopicPartition(self._names.progress(self.node), lane) for lane in lanes]
        self._lane_recall = Recall(self._home, progress, self.clock.now_ms)
        self._unread = Unread(learned, self._recall, self._questions)
        self._leadership = Leadership(
            self.topology,
            self.node,
            self._home,
            self._home.admin().cluster_id(),
            self._recall,
            self.errands,
            self._questions,
            self.new_uuid,
            self._read_positions,
            self._unread,
            self.commits,
        )
        self._listen()
        self._host_trees()

    def _listen(self) -> None:
        """Follow what neighbours, operators and clients write."""
        self._listener = Listener(
            self.topology,
            self.node,
            self._admins,
            self.readers,
            self.intake,
            self._questions,
            self.clock.now_ms(),
        )
        self._recalling = Recalling(self.node, self._recall, self._questions, self._listener)
        self._changing.parts += [self._listener, self._leadership, self._unread]

    def _host_trees(self) -> None:
        """Be ready to host the node's tree layer, if this worker is to."""
        if self.trees is None:
            return
        self.tree_service = TreeService(
            self.topology,
            self.node,
            self._home,
            self._admins,
            self.readers,
            self.intake,
            self._questions,
            self.trees,
        )
        self._changing.parts.append(self.tree_service)

    @property
    def membership(self) -> Membership | None:
        """This worker's membership of its group, or None before it has joined."""
        return self._admission.membership

    @property
    def lanes(self) -> Lanes | None:
        """Its lanes, or None before it knows its node."""
        return self._lanes

    @property
    def refused(self) -> int:
        """How many records of control topics and of its lanes' progress it could not read."""
        return self._listener.refused + (0 if self._lanes is None else self._lanes.strays)

    @property
    def is_ready(self) -> bool:
        """Whether the node serves here: everything proven, and the lanes owned are taken."""
        return (
            self._lanes is not None
            and self._lanes.machine.is_ready
            and self.membership is not None
            and self._lanes.owned.keys() >= self.membership.lanes()
        )

    # -- one turn -------------------------------------------------------------------------

    def turn(self, timeout_s: float) -> bool:
        """Do what there is to do, waiting at most `timeout_s` for records.

        Returns:
            Whether anything was read.
        """
        assigned = self._assigned()
        self._follow_membership(assigned)
        lanes = self._lanes
        records = self.intake.read(self.patience(timeout_s))
        now = self.clock.now_ms()
        data = self._sort(records)
        if lanes is None:
            return bool(records)
        if lost := [place for reader in self.readers.values() for place in reader.lost()]:
            self._listener.lost(lost)
            lanes.sources.lost(lanes.owned, lost)
            if self.tree_service is not None:
                self.tree_service.lost(lost, now)
        for lagging in self._recalling.step(lanes, now):
            self._step(lagging)
        for input_ in self._unread.complete(self._listener.follow(now), now):
            self._step(input_)
        if now - self._ticked_ms >= TICK_MS:
            self._ticked_ms = now
            self._step(Ticked(now))
        if self._listener.knows_orders:
            self._stand_still()
            for change in self._changing.follow(self._listener.orders.word, now):
                self._step(change)
            if self._targets is not None and self._targets.may_begin(now):
                for told in lanes.follow(assigned, now):
                    self._step(told)
        if self._targets is not None:
            for made in self._targets.see_to(now):
                self._step(made)
        if self._upkeep is not None:
            leads = self._leadership.is_ours
            self._upkeep.see_to(self._listener.link_states if leads else None, now)
        if now - self._flushed_ms >= FLUSH_MS:
            self._flush_direct(now)
        for news in (
            lanes.route(data, now),
            lanes.resume_accepted(now),
            lanes.commit_due(is_idle=not records),
            self._go_on_in_the_background(now),
            self._looks.follow(now),
        ):
            for input_ in news:
                self._step(input_)
        lanes.direct.write_due(list(lanes.owned.values()))
        if self._targets is not None and self._targets.seen_ms != self._seen_ms:
            self._seen_ms = self._targets.seen_ms
            self._leadership.leave_out(self._targets.closed_control, self._seen_ms)
        for input_ in self._leadership.write(now):
            self._step(input_)
        self._follow_trees(now)
        self._stand_by(now)
        return bool(records)

    def _stand_by(self, now: int) -> None:
        """Tell what this worker has heard, as long as it has no lane."""
        if not self.name or self._lanes is None:
            return
        if self._standing_by is None:
            topic = self._names.learned(self.node)
            self._standing_by = StandingBy(
                self.name, topic, self._direct, self._recall, self._questions
            )
        learner = self._lanes.machine.learner
        has_lanes = self._lanes.owned or not self._lanes.machine.has_routed
        self._standing_by.step(None if has_lanes else learner.routed, now)

    def patience(self, timeout_s: float) -> float:
        """Return how long to wait for records: not past what is to be done or looked at."""
        is_waiting = self.background is not None and self.background.is_waiting
        if self._leadership.is_under_way or self._questions.are_open or is_waiting:
            timeout_s = min(timeout_s, LOOK_S)
        return timeout_s if self._lanes is None else self._lanes.patience(timeout_s)

    def _follow_trees(self, now: int) -> None:
        if self.tree_service is None or self.machine is None:
            return
        self.tree_service.follow(self._leadership.incarnation, now)
        links = [
            name
            for name, neighbour in self.machine.learner.neighbours.items()
            if neighbour.may_talk and name not in self._cut
        ]
        self.tree_service.step(links, now)

    def _go_on_in_the_background(self, now: int) -> Iterator[Input]:
        if self.background is not None:
            leads = self._leadership.is_ours
            yield from self.background.step(self._listener.link_states, now, leads=leads)

    def _sort(self, records: Sequence[Record]) -> Mapping[TopicPartition, Sequence[Record]]:
        """Feed control records to the machine; return the others by partition, in order."""
        found: dict[TopicPartition, Sequence[Record]] = {}
        trees = self.tree_service
        for at, group in by_partition(records).items():
            if self._listener.has(at.topic, at.partition):
                self._hear(group)
            elif trees is not None and trees.has(at.topic):
                trees.take(group, self.clock.now_ms())
            else:
                found[at] = group
        return found

    def _hear(self, records: Sequence[Record]) -> None:
        for record in records:
            for input_ in self._listener.take(record):
                self._step(input_)

    # -- membership -----------------------------------------------------------------------

    def _assigned(self) -> frozenset[int]:
        """Return the lanes that the group gave to this worker, which may not have joined yet."""
        has_routed = self.machine is not None and self.machine.has_routed
        is_prepared = has_routed and self._listener.knows_orders
        return self._admission.lanes(self.clock.now_ms(), is_prepared=is_prepared)

    def _follow_membership(self, assigned: frozenset[int]) -> None:
        now = self.clock.now_ms()
        for input_ in self._leadership.follow(is_due=0 in assigned, now_ms=now):
            self._know_node()
            self._step(input_)
            self._listener.tell_again()
            self._listener.leads(self._leadership.topic_ids)
        self._know_node()
        if self._lanes is not None:
            self._lanes.keep(assigned)

    def _hand_back(self, going: frozenset[int]) -> None:
        """Commit lanes exactly before the group may give them to others."""
        if self._lanes is not None:
            self._lanes.hand_back(sorted(self._lanes.owned.keys() & going))

    def _know_node(self) -> None:
        if self.machine is None and self._leadership.uuid is not None:
            self._know(self._leadership.uuid)

    def _know(self, uuid: str) -> None:
        self.machine = self._changing.new_machine(uuid, self._leadership.cluster_id)
        learner = self.machine.learner
        sources = Sources(
            self.topology,
            self.node,
            learner,
            self._admins,
            self.readers,
            self.intake,
            self._questions,
        )
        sources.still.cut = self._cut
        sources.still.paused = self._listener.orders.paused
        sources.still.holding = self._changing.is_held(self._listener.orders.change)
        self._lanes = Lanes(
            self.topology,
            self._home,
            self._lane_recall,
            self.machine,
            sources,
            DirectCopies(self._direct, self.clock),
            self.clock,
            self.errands,
            self.commits,
            traces=self.traces,
        )
        self._looks = Looks(self._lanes)
        home = self.topology.nodes[self.node].kafka
        self._upkeep = Upkeep(self.topology, self.node, self._home, self._lanes, self._questions)
        self._targets = Targets(
            self.topology,
            self.node,
            self._home,
            self._lanes,
            self._questions,
            self.clock.now_ms(),
        )
        self.background = BackgroundWork(
            Repairs(self.kafka, home, self._lanes, self._listener.asked),
            Holds(self.kafka, home, self._lanes),
            Backlogs(self.topology, self.node, self._home, self._lanes),
            Movers(self.topology, self.node, self._home, self._lanes),
        )
        self._changing.parts += [self._lanes, self._upkeep, self._targets, self.background]

    # -- effects --------------------------------------------------------------------------

    def _step(self, input_: Input) -> None:
        if self.machine is None:
            return
        for effect in self.machine.step(input_):
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        if isinstance(effect, WriteHeartbeat) and self.tree_service is not None:
            trees = self.tree_service
            beat = replace(effect.heartbeat, colour=trees.colour, trees=trees.status)
            effect = WriteHeartbeat(beat)
        if isinstance(effect, Write):
            self._leadership.ask(effect)
            return
        match effect:
            case EnsureEndpoint(endpoint, message_class):
                if self._targets is not None:
                    self._targets.ensure(endpoint, message_class, self.clock.now_ms())
            case Relinked(topology):
                self.topology = topology
                self._changing.relink(effect, self.clock.now_ms())
            case Reroute(in_force, cuts):
                if self._lanes is not None:
                    self._lanes.cut(in_force, cuts)
            case ResumeSource(stop):
                if self._lanes is not None:
                    self._lanes.resume(stop)
            case RestartLeadership():
                for input_ in self._leadership.stop():
                    self._step(input_)
            case RepeatLearned():
                self._listener.tell_again()
            case ReadAgain(neighbour):
                self._listener.read_again(neighbour)
            case BecameReady():
                log.info("node.ready")
            case Note(event, text):
                log.warning(event, text=text)
            case _:
                assert_never(effect)

    def _read_positions(self, neighbour: str) -> Sequence[OutboxPosition]:
        if self._lanes is None:
            return []
        mates = self._listener.read_by_mates(neighbour)
        return [*{**mates, **self._lanes.read_positions(neighbour)}.values()]

    def _flush_direct(self, now: int) -> None:
        """Have the direct writer tell what it could not deliver, and replace it if it died."""
        self._flushed_ms = now
        if failed := self._direct.failed():
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
        still, lanes, now = self._lanes.sources.still, self._lanes, self.clock.now_ms()
        orders = self._listener.orders
        lanes.pause_subjects(orders.paused_subjects, now)
        closed = lanes.machine.router.unread()
        gives_way = lanes.machine.probing.answer.is_holding
        holding = gives_way or self._changing.is_held(orders.change)
        wanted = (self._cut, orders.paused, closed, holding)
        if still.wake(now) or wanted != (still.cut, still.paused, still.closed, still.holding):
            still.cut, still.paused, still.closed, still.holding = wanted
            lanes.sources.settle(lanes.owned, now)

    def close(self) -> None:
        """Commit what is open and leave the group at once; who leads next says all anew."""
        if self._lanes is not None:
            self._lanes.hand_back(sorted(self._lanes.owned))
            self._lanes.keep(frozenset())
        if self._standing_by is not None:
            self._standing_by.close()
        if self.tree_service is not None:
            self.tree_service.close(self.clock.now_ms())
        self.abandon()

    def abandon(self) -> None:
        """Leave the group and release everything; what is not committed never happened."""
        self.errands.close()  # one that goes on after the leaving would fence a successor
        if self.tree_service is not None:
            self.tree_service.abandon()
        self._admission.close()
        if self.background is not None:
            self.background.close()
        if self._lanes is not None:
            for number in list(self._lanes.owned):
                self._lanes.drop(number)
        self.commits.close()
        self._leadership.close()
        self._direct.flush(LEAVE_S)
        self._direct.close()
        for recall in (self._recall, self._lane_recall):
            recall.close()
        self.intake.close()
