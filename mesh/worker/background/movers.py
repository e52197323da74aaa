"""Which of a node's queues have consumers, and what moves where on account of that. DESIGN 6.

Consumers are the members of a queue's group that are not the mesh's own. Who leads the node says
with the heartbeat how much they could still take in; who has messages that nobody here consumes
moves them there, each lane for itself. Kafka is asked, and groups are joined and left, beside the
loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from mesh.core.moving import Part, is_client, room_for, target_of
from mesh.core.queues import Nearness
from mesh.core.routes import PUBLISHED_HERE
from mesh.core.routing import LocalLink
from mesh.errors import TransportError
from mesh.lane.lane import Lane
from mesh.model.control import LinkState
from mesh.model.effects import Relinked
from mesh.model.frames import MessageClass
from mesh.model.inputs import Input, QueueSeen
from mesh.model.names import fold
from mesh.model.queues import Attraction, MemberKind
from mesh.model.topology import Topology
from mesh.transport.partly import as_far_as_told
from mesh.transport.port import Admin, Consumer, KafkaCluster, TopicPartition
from mesh.worker.background.moving import CHUNK, Mover, Opened, open_mover
from mesh.worker.lanes.owned import Lanes
from mesh.worker.process.errands import Errand, Steps

LOOK_MS = 1_000
"""How often groups are asked for their members."""

GRACE_MS = 5_000
"""How long nobody must consume here before messages leave: a consumer may begin anew."""

RETRY_MS = 5_000
"""How long a mover that failed rests."""

REST_MS = 3_000
"""How long a mover that has nothing to send stays in its group: what it is given rests with it,
and somebody else may consume it. Demands come once a second."""

_CLASSES = (MessageClass.GUARANTEED, MessageClass.DIRECT)

log = structlog.get_logger()


@dataclass(slots=True)
class _Seen:
    """A queue of this node from which messages may move on.

    Attributes:
        part: What the node is for it.
        is_member: Whether it has the queue, or has left it with messages in it.
        consumers: Clients that consume it here.
        consumed_ms: When there were some last, or the queue was first seen.
        target: The member that gets what waits here, or None.
        room: How much that one could take in; None is without end.
        version: Of what it said.
    """

    part: Part
    consumed_ms: int
    is_member: bool = True
    consumers: int = 0
    target: Attraction | None = None
    room: int | None = None
    version: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a look asks of Kafka.

    Attributes:
        parts: Queues that the node has, and what it is for them.
        theirs: Queues that only others have; it may have left one with messages in it.
        unknown: Those of them of which it is not known whether they have a topic here.
        topics: Topic and group of each queue.
        partitions: How many a queue has.
        marks: How far outboxes must be read before all that movers wrote there is.
    """

    parts: Mapping[str, Part]
    theirs: Mapping[str, Part]
    unknown: Sequence[str]
    topics: Mapping[str, str]
    partitions: int
    marks: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class _Told:
    """What Kafka says of queues.

    Attributes:
        has_topic: Whether they have a topic here, of those of which that was unknown.
        consumers: Clients that consume them here.
        waiting: Records that their groups have not passed, markers of Kafka included.
        ends: Where outbox partitions end that movers have written.
    """

    has_topic: Mapping[str, bool]
    consumers: Mapping[str, int]
    waiting: Mapping[str, int]
    ends: Mapping[TopicPartition, int]


@dataclass(slots=True)
class Movers:
    """Looks for consumers, and moves messages, of the lanes that this worker owns.

    Attributes:
        topology, node: Whose.
        home: The node's own Kafka cluster.
        lanes: What this worker owns.
    """

    topology: Topology
    node: str
    home: KafkaCluster
    lanes: Lanes
    _seen: dict[str, _Seen] = field(default_factory=dict)
    _told: dict[str, int] = field(default_factory=dict)
    _movers: dict[tuple[int, str], Mover] = field(default_factory=dict)
    _left: dict[tuple[int, str], tuple[str, tuple[int, int], int]] = field(default_factory=dict)
    _failed_ms: dict[tuple[int, str], int] = field(default_factory=dict)
    _moved_ms: dict[tuple[int, str], int] = field(default_factory=dict)
    _marks: dict[tuple[int, str], Mapping[TopicPartition, int]] = field(default_factory=dict)
    _looked_ms: int = -LOOK_MS
    _has_topic: dict[str, bool] = field(default_factory=dict)
    _waiting: Mapping[str, int] = field(default_factory=dict)
    _wanted: _Wanted | None = None
    _opening: tuple[tuple[int, str], Lane, Errand[Opened]] | None = None
    _leaving: list[tuple[Errand[Mover], Mover]] = field(default_factory=list)
    _marking: dict[tuple[int, str], Sequence[TopicPartition]] = field(default_factory=dict)

    @property
    def is_opening(self) -> bool:
        """Whether it has the second writer of a lane just now."""
        return self._opening is not None

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for what a mover needs, or for a commit."""
        is_writing = self._movers and any(one.pending.is_any for one in self._movers.values())
        return self.is_opening or bool(is_writing)

    @property
    def members(self) -> Sequence[Consumer]:
        """The memberships of groups of queues that it has just now, or is giving up."""
        leaving = [mover for _, mover in self._leaving]
        return [one.consumer for one in [*self._movers.values(), *leaving]]

    def relink(self, relinked: Relinked, now_ms: int) -> None:
        """Go by another topology, from the next look on."""
        self.topology = relinked.topology
        self._looked_ms = now_ms - LOOK_MS

    def step(
        self,
        link_states: Mapping[str, LinkState],
        now_ms: int,
        *,
        leads: bool,
        may_open: bool,
    ) -> Iterator[Input]:
        """Look again if it is time, and move some; yield what the node is to tell.

        Args:
            link_states: What neighbours have read of this node.
            now_ms: The present moment.
            leads: Whether this worker tells of the node.
            may_open: Whether nobody has the second writer of a lane just now.
        """
        if not self.lanes.machine.has_routed:
            return
        self._leaving = [one for one in self._leaving if not one[0].has_ended()]
        if self._wanted is not None or now_ms - self._looked_ms >= LOOK_MS:
            try:
                is_told = self._look(now_ms)
            except TransportError as error:
                log.warning("queues.unknown", fault=str(error))
                self._wanted = None
                self._looked_ms = now_ms + RETRY_MS - LOOK_MS
            else:
                if is_told:
                    yield from self._tell(leads=leads)
        for key in [key for key, one in self._movers.items() if not self._may_go_on(key, one.lane)]:
            self._leave(key)
        self._take_opened(now_ms)
        for key, mover in self._movers.items():
            self._mark(key, mover)
        for queue, seen in self._seen.items():
            if seen.target is not None:
                for lane in list(self.lanes.owned.values()):
                    self._move(lane, queue, seen, link_states, now_ms, may_open=may_open)

    def close(self) -> None:
        """Leave the groups; whoever takes the lanes goes on."""
        if self._opening is not None:
            self._opening[2].call_off()
            self._opening = None
        # Whoever looks after leaving may have been called off before it began.
        for one in [*self._movers.values(), *(mover for _, mover in self._leaving)]:
            one.close()
        self._movers.clear()
        self._leaving.clear()

    def _leave(self, key: tuple[int, str]) -> None:
        """Have a mover leave its group, which may wait for who looks after that."""
        if self._marking.pop(key, None) is not None:
            self.lanes.sources.questions.forget("marks", *key)
        mover = self._movers.pop(key)
        self._marks[key] = dict(mover.marks)
        self._close(mover)

    def _close(self, mover: Mover) -> None:
        errand = self.lanes.errands.begin(_closing(mover))
        if not errand.has_ended():
            self._leaving.append((errand, mover))

    # -- who consumes -----------------------------------------------------------------------

    def _look(self, now_ms: int) -> bool:
        """Ask who consumes and how much waits; say whether that is told."""
        if self._wanted is None:
            self._looked_ms = now_ms
            self._wanted = self._to_ask()
        asking = partial(_ask, self.home.admin(), self._wanted)
        told = self.lanes.sources.questions.answer(("queues",), asking)
        if told is None:
            return False
        wanted, self._wanted = self._wanted, None
        self._follow(wanted, told, now_ms)
        return True

    def _to_ask(self) -> _Wanted:
        attractions = self.lanes.machine.router.table.attractions.all()
        parts = {
            one.queue: Part(one.kind.value)
            for one in attractions
            if one.node == self.node and one.kind is not MemberKind.LOCAL
        }
        own = {fold(queue): None for queue in parts}
        theirs = {
            one.queue: Part.ANY if one.kind is MemberKind.ANY else Part.PROXY
            for one in attractions
            if one.kind in (MemberKind.ANY, MemberKind.HOME) and one.name not in own
        }
        for queue in [one for one in self._has_topic if one not in theirs]:
            del self._has_topic[queue]
        unknown = [queue for queue in theirs if queue not in self._has_topic]
        theirs = {one: part for one, part in theirs.items() if self._has_topic.get(one, True)}
        topics = {one: self.lanes.names.endpoint(self.node, one) for one in {**parts, **theirs}}
        marks: dict[TopicPartition, int] = {}
        for mover in self._movers.values():
            for at, mark in mover.marks.items():
                marks[at] = max(mark, marks.get(at, 0))
        partitions = self.topology.nodes[self.node].partitions
        return _Wanted(parts, theirs, unknown, topics, partitions, marks)

    def _follow(self, wanted: _Wanted, told: _Told, now_ms: int) -> None:
        self._has_topic |= told.has_topic
        self._waiting = told.waiting
        left = {queue: one for queue, one in wanted.theirs.items() if told.waiting.get(queue, 0)}
        given = {**wanted.parts, **left}
        for queue in [queue for queue in self._seen if queue not in given]:
            del self._seen[queue]
        for known in (self._left, self._failed_ms, self._moved_ms, self._marks):
            for key in [key for key in known if key[1] not in given]:
                del known[key]
        attractions = self.lanes.machine.router.table.attractions.all()
        near = Nearness(self.topology, self.node)
        for queue, part in given.items():
            seen = self._seen.setdefault(queue, _Seen(part, now_ms))
            seen.part, seen.is_member = part, queue in wanted.parts
            seen.consumers = told.consumers.get(queue, 0)
            if seen.consumers:
                seen.consumed_ms = now_ms
            self._aim(queue, seen, attractions, near, now_ms)
        for mover in self._movers.values():
            mover.forget_lost(told.ends, wanted.marks)

    def _aim(
        self,
        queue: str,
        seen: _Seen,
        attractions: Sequence[Attraction],
        near: Nearness,
        now_ms: int,
    ) -> None:
        members = {one.node: one for one in attractions if one.name == fold(queue)}
        home = next((one.node for one in members.values() if one.kind is MemberKind.HOME), None)
        demands = [one for one in self.lanes.machine.demands.of(queue) if one.node in members]
        is_alone = seen.consumers == 0 and now_ms - seen.consumed_ms >= GRACE_MS
        name = target_of(seen.part, 0 if is_alone else 1, demands, home, near)
        seen.target = members.get(name) if name is not None else None
        demand = next((one for one in demands if one.node == name), None)
        is_return = seen.part is Part.PROXY
        seen.room = None if is_return or demand is None else demand.room
        seen.version = (0, 0) if demand is None else demand.version

    def _tell(self, *, leads: bool) -> Iterator[Input]:
        rooms = (
            {queue: self._room(queue, seen) for queue, seen in self._seen.items() if seen.is_member}
            if leads
            else {}
        )
        for queue in self._told.keys() - rooms.keys():
            yield QueueSeen(queue, None)
        for queue, room in rooms.items():
            yield QueueSeen(queue, room)
        self._told = rooms

    def _room(self, queue: str, seen: _Seen) -> int:
        return room_for(seen.consumers, self._waiting.get(queue, 0)) if seen.consumers else 0

    # -- what moves -------------------------------------------------------------------------

    def _may_go_on(self, key: tuple[int, str], lane: Lane) -> bool:
        seen = self._seen.get(key[1])
        return self.lanes.owns(lane) and seen is not None and seen.target is not None

    def _move(
        self,
        lane: Lane,
        queue: str,
        seen: _Seen,
        link_states: Mapping[str, LinkState],
        now_ms: int,
        *,
        may_open: bool,
    ) -> None:
        key = (lane.number, queue)
        target = seen.target
        if target is None or now_ms - self._failed_ms.get(key, -RETRY_MS) < RETRY_MS:
            return
        try:
            mover = self._movers.get(key)
            if mover is not None and mover.pending.is_any:
                if not mover.pending.is_through:
                    return
                self._end_move(key, mover)
            # What is sent while sources hold is on its way still when its walk changes. K28
            is_held = self.lanes.sources.still.holding
            link = None if is_held else self._link_to(target, lane)
            most = self._may_send(key, seen, link, link_states) if link is not None else 0
            if link is None or most <= 0:
                if mover is not None:
                    self._rest(key, mover, now_ms)
                return
            self._moved_ms[key] = now_ms
            if mover is None:
                if may_open:
                    self._open(lane, queue, now_ms)
                mover = self._movers.get(key)
            if mover is None:
                return
            mover.begin_to_move(link, target.address, most, self.lanes.commits)
            if mover.pending.is_any and mover.pending.is_through:
                self._end_move(key, mover)
        except TransportError as error:
            log.warning("queue.not_moved", queue=queue, lane=lane.number, fault=str(error))
            self._failed_ms[key] = now_ms
            if key in self._movers:
                self._leave(key)

    def _end_move(self, key: tuple[int, str], mover: Mover) -> None:
        """Take note of what is moved: so much less may be sent."""
        name, version, left = self._left[key]
        self._left[key] = (name, version, left - mover.end_move())

    def _open(self, lane: Lane, queue: str, now_ms: int) -> None:
        """Have a mover join its group; one at a time, since it needs the lane's second writer."""
        if self._opening is None:
            steps = open_mover(self.home, self.lanes.recall, lane, queue)
            self._opening = (lane.number, queue), lane, self.lanes.errands.begin(steps)
            self._take_opened(now_ms)

    def _take_opened(self, now_ms: int) -> None:
        """Let a mover begin that has joined its group by now."""
        if self._opening is None or not self._opening[2].has_ended():
            return
        (key, lane, errand), self._opening = self._opening, None
        try:
            opened = errand.result()
        except TransportError as error:
            log.warning("queue.not_moved", queue=key[1], lane=key[0], fault=str(error))
            self._failed_ms[key] = now_ms
            return
        mover = opened.begin(lane, key[1])
        if mover is None:
            return  # the queue has no topic yet
        if self._may_go_on(key, lane):
            mover.marks.update(self._marks.pop(key, {}))
            self._movers[key] = mover
        else:
            self._close(mover)

    def _rest(self, key: tuple[int, str], mover: Mover, now_ms: int) -> None:
        """Have a mover take nothing more; after a while it leaves, and comes back for work."""
        is_marking = bool(mover.unmarked) or key in self._marking
        if is_marking or now_ms - self._moved_ms.get(key, now_ms) < REST_MS:
            mover.rest()
        else:
            self._leave(key)

    def _mark(self, key: tuple[int, str], mover: Mover) -> None:
        """Learn where outboxes end that a mover has written: so far they are to be read."""
        if key not in self._marking:
            if not mover.unmarked:
                return
            self._marking[key] = mover.take_unmarked()
        places = self._marking[key]
        asking = partial(self.home.admin().ends, places)
        try:
            ends = self.lanes.sources.questions.answer(("marks", *key), asking)
        except TransportError:
            mover.unmarked.update(dict.fromkeys(self._marking.pop(key)))
            return  # the next turn asks again
        if ends is not None:
            del self._marking[key]
            mover.marks |= ends

    def _link_to(self, target: Attraction, lane: Lane) -> LocalLink | None:
        """Return the link on the way to a member; None if messages cannot go there just now.

        A member that is down, at whatever distance, is no target: direct messages would not go
        there. What has no need to wait there stays where somebody may consume it.
        """
        route, live = (lane.router.route(target.address, PUBLISHED_HERE, one) for one in _CLASSES)
        if len(route.neighbours) != 1 or tuple(live.neighbours) != tuple(route.neighbours):
            return None
        if lane.router.conduct(route.neighbours[0]).direct is not None:
            return None
        link = lane.link(route.neighbours[0])
        outbox = lane.names.outbox(lane.node, link.neighbour, MessageClass.GUARANTEED)
        is_full = (lane.number, outbox) in self.lanes.full
        return None if is_full or lane.leaves_out(outbox) else link

    def _may_send(
        self,
        key: tuple[int, str],
        seen: _Seen,
        link: LocalLink,
        link_states: Mapping[str, LinkState],
    ) -> int:
        """Return how many messages a mover may send now: its share of what the target demands.

        A newer demand counts only once all that was sent by the one before has been read by the
        neighbour: so no more than two of them are ever under way.
        """
        name = "" if seen.target is None else seen.target.node
        share = CHUNK
        if seen.room is not None:
            lanes = self.topology.nodes[self.node].lanes
            share = seen.room // lanes + (1 if key[0] < seen.room % lanes else 0)
        known, version, left = self._left.get(key, ("", (0, 0), 0))
        is_newer = name != known or seen.room is None or version < seen.version
        if is_newer and self._is_read(key, link, link_states):
            left = share
            self._left[key] = (name, seen.version, left)
        elif name != known:
            return 0
        return left

    def _is_read(
        self, key: tuple[int, str], link: LocalLink, link_states: Mapping[str, LinkState]
    ) -> bool:
        mover = self._movers.get(key)
        if key in self._marking or (mover is not None and mover.unmarked):
            return False
        written = self._marks.get(key, {}) if mover is None else mover.marks
        state = link_states.get(link.neighbour)
        read = {
            TopicPartition(told.topic, told.partition): told.read
            for told in (state.positions if state is not None else ())
        }
        names = self.lanes.names
        outboxes = [names.outbox(self.node, link.neighbour, one) for one in MessageClass]
        marks = {at: mark for at, mark in written.items() if at.topic in outboxes}
        return all(read.get(at, 0) >= mark for at, mark in marks.items())


def _closing(mover: Mover) -> Steps[Mover]:
    try:
        yield
    finally:
        mover.close()
    return mover


def _ask(admin: Admin, wanted: _Wanted) -> _Told:
    known = admin.describe([wanted.topics[queue] for queue in wanted.unknown])
    has_topic = {queue: wanted.topics[queue] in known for queue in wanted.unknown}
    topics = {one: topic for one, topic in wanted.topics.items() if has_topic.get(one, True)}
    places = {
        queue: [TopicPartition(topic, number) for number in range(wanted.partitions)]
        for queue, topic in topics.items()
    }
    every = [at for some in places.values() for at in some]
    passed: dict[TopicPartition, int] = {}
    for queue, topic in topics.items():
        passed |= admin.passed(topic, places[queue])
    # A queue of which a partition has no leader keeps nobody from moving the others.
    starts, _ = as_far_as_told(partial(admin.starts, every))
    ends, _ = as_far_as_told(partial(admin.stable_ends, every))
    waiting = {
        queue: sum(
            ends[at] - max(passed.get(at, 0), starts.get(at, 0)) for at in some if at in ends
        )
        for queue, some in places.items()
    }
    consumers = {
        queue: sum(map(is_client, admin.group_members(topic))) for queue, topic in topics.items()
    }
    return _Told(has_topic, consumers, waiting, admin.ends(list(wanted.marks)))
