"""The worker: the loop that joins the machine, the lanes and Kafka.

It creates the node's topics, and joins the group once it has learned; when it knows its node it
serves it. A turn checks the membership first: a lane that is no longer owned must not be written
to. Then it reads; `mesh.worker.node_service` does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field

from mesh.lane.traces import Traces
from mesh.model.control import OutboxPosition
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.node.machine import NodeMachine
from mesh.transport.node_topics import config_topic
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
from mesh.worker.background import BackgroundWork
from mesh.worker.control.acknowledged_interest import AcknowledgedInterest
from mesh.worker.control.frozen_neighbours import FrozenNeighbours
from mesh.worker.control.leadership import Leadership
from mesh.worker.control.listener import Listener
from mesh.worker.control.standing_by import StandingBy
from mesh.worker.control.topology_changes import Connect, TopologyChanges
from mesh.worker.control.topology_start import read_start
from mesh.worker.lanes.admission import Admission
from mesh.worker.lanes.direct_copies import LEAVE_S, DirectCopies
from mesh.worker.lanes.owned import Lanes
from mesh.worker.lanes.sources import Sources
from mesh.worker.limits.outboxes import Backlogs
from mesh.worker.node_service import NodeService
from mesh.worker.process.clock import Clock
from mesh.worker.process.commits import Commits, CommitsAtOnce
from mesh.worker.process.errands import LOOK_S, Errands
from mesh.worker.process.intake import Intake, by_partition
from mesh.worker.process.questions import Questions
from mesh.worker.process.recall import Recall
from mesh.worker.queue_moves.movers import Movers
from mesh.worker.second_writer.held_targets import HeldTargets
from mesh.worker.second_writer.repairs import Repairs
from mesh.worker.topics.provision import make_node_topics, set_node_topics
from mesh.worker.topics.targets import Targets
from mesh.worker.topics.upkeep import Upkeep
from mesh.worker.trees.service import TreeService


@dataclass(slots=True)
class Worker:
    """One worker of one node.

    Attributes:
        file: The topology in its file.
        node: The node it serves.
        kafka: Every Kafka cluster of the mesh that this node touches, by name.
        readers: One per Kafka cluster; `intake` reads them.
        clock: Time.
        errands: Takes lanes and the leadership beside the loop.
        new_uuid: Makes the node's identity at its very first start.
        connect: Opens Kafka clusters that a change of the topology brings.
        trees: Settings of the tree layer; None for a worker without.
        name: Distinguishes it from the node's other workers, for people; without one it does not
            report what it has heard while it stands by.
        traces: Notified of each batch that its lanes commit; None if nobody follows traces.
        commits: Waits for commits of lanes.
    """

    file: InitVar[Topology]
    node: str
    kafka: dict[str, KafkaCluster]
    readers: dict[str, Reader]
    intake: Intake
    clock: Clock
    errands: Errands
    new_uuid: Callable[[], str]
    connect: Connect | None = None
    trees: TreeSettings | None = None
    name: str = ""
    traces: Traces | None = None
    commits: Commits = field(default_factory=CommitsAtOnce)
    _changes: TopologyChanges = field(init=False)
    _home: KafkaCluster = field(init=False)
    _names: TopicNames = field(init=False)
    _admission: Admission = field(init=False)
    _direct: Writer = field(init=False)
    _questions: Questions = field(init=False)
    _acknowledged: AcknowledgedInterest = field(init=False)
    _frozen: FrozenNeighbours = field(init=False)
    _listener: Listener = field(init=False)
    _recall: Recall = field(init=False)
    _lane_recall: Recall = field(init=False)
    _leadership: Leadership = field(init=False)
    _service: NodeService | None = None
    tree_service: TreeService | None = None
    _isolated: tuple[str, ...] = ()
    _admins: dict[str, Admin] = field(init=False)

    def __post_init__(self, file: Topology) -> None:
        """Create the node's topics, and all parts that need nothing of the node but its name."""
        self._names = TopicNames(file.prefix)
        self._home = self.kafka[file.nodes[self.node].kafka]
        self._home.admin().create([config_topic(file)])
        self._begin(file)
        make_node_topics(self._home.admin(), self.topology, self.node)
        set_node_topics(self._home.admin(), self.topology, self.node)
        self._questions = Questions(self.errands)
        self._share_lanes()
        self._lead()
        self._listen()
        self._host_trees()

    def _begin(self, file: Topology) -> None:
        """Find the topology to begin with, and follow its changes."""
        own = (self._names.control(self.node), self._names.config(), self._names.learned(self.node))
        control, config, learned = (TopicPartition(topic, 0) for topic in own)
        self._recall = Recall(self._home, [control, config, learned], self.clock.now_ms)
        self._admins = {name: kafka.admin() for name, kafka in self.kafka.items()}
        self._changes = TopologyChanges(
            self.node,
            read_start(file, self.node, self._recall.records(config)),
            self.kafka,
            self._admins,
            self.readers,
            self.intake,
            self.errands,
            self.connect,
        )

    def _share_lanes(self) -> None:
        """Prepare to share the node's lanes with its other workers."""
        lanes = range(self.topology.nodes[self.node].lanes)
        self._admission = Admission(
            self._home,
            self._names,
            self.node,
            len(lanes),
            self._questions,
            self.clock.now_ms(),
            self._hand_back,
        )
        self._direct = self._home.writer("direct")
        progress = [TopicPartition(self._names.progress(self.node), lane) for lane in lanes]
        self._lane_recall = Recall(self._home, progress, self.clock.now_ms)

    def _lead(self) -> None:
        """Prepare to lead the node."""
        learned = TopicPartition(self._names.learned(self.node), 0)
        self._frozen = FrozenNeighbours(learned, self._recall, self._questions)
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
            self._frozen,
            self.commits,
        )

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
        self._acknowledged = AcknowledgedInterest(
            self.node, self._recall, self._questions, self._listener
        )
        self._changes.parts += [self._listener, self._leadership, self._frozen]

    def _host_trees(self) -> None:
        """Prepare to host the node's tree layer, if this worker is to do so."""
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
        self._changes.parts.append(self.tree_service)

    @property
    def membership(self) -> Membership | None:
        """This worker's membership of its group, or None before it has joined."""
        return self._admission.membership

    @property
    def given(self) -> frozenset[int]:
        """The lanes that the group assigned to it."""
        return self._admission.given

    @property
    def topology(self) -> Topology:
        """The topology that it works by."""
        return self._changes.topology

    @property
    def machine(self) -> NodeMachine | None:
        """The machine that decides for its node, or None before it knows its node."""
        return None if self._service is None else self._service.machine

    @property
    def lanes(self) -> Lanes | None:
        """The lanes that it owns, or None before it knows its node."""
        return None if self._service is None else self._service.lanes

    @property
    def background(self) -> BackgroundWork | None:
        """Its work beside the lanes, or None before it knows its node."""
        return None if self._service is None else self._service.background

    @property
    def refused(self) -> int:
        """Number of unreadable records in control topics and in its lanes' progress."""
        return self._listener.refused + (0 if self.lanes is None else self.lanes.strays)

    @property
    def is_ready(self) -> bool:
        """Whether the node serves here: everything proven, and the lanes owned are taken."""
        service = self._service
        if service is None or self.membership is None or not service.machine.serves:
            return False
        return service.lanes.owned.keys() >= self.given

    # -- one turn -------------------------------------------------------------------------

    def turn(self, timeout_s: float) -> bool:
        """Do what is due, waiting at most `timeout_s` for records.

        Returns:
            Whether anything was read.
        """
        self._questions.drop_unasked(self.clock.now_ms())
        assigned = self._assigned()
        self._follow_membership(assigned)
        if self._service is not None:
            self._service.lanes.sources.begin_turn()
        records = self._read(timeout_s)
        now = self.clock.now_ms()
        data = self._sort(records)
        if self._service is not None:
            self._service.turn(assigned, data, now, is_idle=not records)
        return bool(records)

    def _read(self, timeout_s: float) -> Sequence[Record]:
        """Wait for records, at most until something else is due; return them.

        Frames of the tree layer do not end the wait, and are taken during it: a turn for each
        would cost an idle node more than the frames do.
        """
        wait_s = self.patience(timeout_s)
        until_ms = self.clock.now_ms() + int(1000 * wait_s)
        while self._are_of_trees(records := self.intake.read(wait_s, self._listener.may_wait)):
            wait_s = (until_ms - self.clock.now_ms()) / 1000
            if wait_s <= 0:
                break
            self._sort(records)
        return records

    def _are_of_trees(self, records: Sequence[Record]) -> bool:
        trees = self.tree_service
        if trees is None or not records or not trees.has(records[-1].topic()):
            return False
        return all(trees.has(record.topic()) for record in records)

    def patience(self, timeout_s: float) -> float:
        """Return how long to wait for records: at most until something is due."""
        service = self._service
        is_waiting = service is not None and service.background.is_waiting
        if self._leadership.is_under_way or self._questions.are_open or is_waiting:
            timeout_s = min(timeout_s, LOOK_S)
        return timeout_s if service is None else service.lanes.patience(timeout_s)

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
                if self._service is not None:
                    self._service.step(input_)

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
            if self._service is not None:
                self._service.step(input_)
            self._listener.tell_again()
            self._listener.leads(self._leadership.topic_ids, self._leadership.records)
        self._know_node()
        if self._service is not None:
            self._service.lanes.keep(assigned)

    def _hand_back(self, going: frozenset[int]) -> None:
        """Commit lanes exactly before the group may give them to others."""
        if self._service is not None:
            lanes = self._service.lanes
            lanes.hand_back(sorted(lanes.owned.keys() & going))

    def _know_node(self) -> None:
        if self._service is None and self._leadership.uuid is not None:
            self._service = self._new_service(self._leadership.uuid)

    def _new_service(self, uuid: str) -> NodeService:
        machine = self._changes.new_machine(uuid, self._leadership.cluster_id)
        sources = Sources(
            self.topology,
            self.node,
            machine.learner,
            self._admins,
            self.readers,
            self.intake,
            self._questions,
        )
        lanes = Lanes(
            self.topology,
            self._home,
            self._lane_recall,
            machine,
            sources,
            DirectCopies(self._direct, self.clock),
            self.clock,
            self.errands,
            self.commits,
            traces=self.traces,
        )
        home, of = self.topology.nodes[self.node].kafka, (self.topology, self.node, self._home)
        return NodeService(
            self.clock,
            self.readers,
            self._listener,
            self._leadership,
            self._changes,
            self._acknowledged,
            self._frozen,
            machine,
            lanes,
            Targets(*of, lanes, self._questions, self.clock.now_ms()),
            Upkeep(*of, lanes, self._questions),
            BackgroundWork(
                Repairs(self.kafka, home, lanes, self._listener.asked),
                HeldTargets(self.kafka, home, lanes),
                Backlogs(*of, lanes),
                Movers(*of, lanes),
            ),
            self.tree_service,
            self._new_standing_by(),
            self._isolated,
        )

    def _new_standing_by(self) -> StandingBy | None:
        if not self.name:
            return None
        topic = self._names.learned(self.node)
        return StandingBy(self.name, topic, self._direct, self._recall, self._questions)

    def _read_positions(self, neighbour: str) -> Sequence[OutboxPosition]:
        if self._service is None:
            return []
        of_peers = self._listener.read_by_peers(neighbour)
        return [*{**of_peers, **self._service.lanes.read_positions(neighbour)}.values()]

    def isolate(self, neighbours: Sequence[str]) -> None:
        """Read nothing from exactly these neighbours from now on, as if the network were cut.

        An injected fault: what the neighbours write stays, and is read when the link heals.
        """
        self._listener.isolate(neighbours)
        self._isolated = tuple(neighbours)
        if self._service is not None:
            self._service.isolated = self._isolated
            self._service.update_gate()

    def close(self) -> None:
        """Commit what is open and leave the group at once; the next leader writes all again."""
        if self._service is not None:
            self._service.hand_back()
        if self.tree_service is not None:
            self.tree_service.close(self.clock.now_ms())
        self.abandon()

    def abandon(self) -> None:
        """Leave the group and release everything; what is not committed never happened."""
        self.errands.close()  # one still running after leaving would fence a successor
        if self.tree_service is not None:
            self.tree_service.abandon()
        self._admission.close()
        if self._service is not None:
            self._service.abandon()
        self.commits.close()
        self._leadership.close()
        self._direct.flush(LEAVE_S)
        self._direct.close()
        for recall in (self._recall, self._lane_recall):
            recall.close()
        self.intake.close()
