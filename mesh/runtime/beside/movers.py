"""Which of a node's queues have consumers, and what moves where on account of that. DESIGN 6.

Consumers are the members of a queue's group that are not the mesh's own. Who leads the node says
with the heartbeat how much they could still take in; who has messages that nobody here consumes
moves them there, each lane for itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from mesh.core.moving import Part, is_client, room_for, target_of
from mesh.core.queues import Nearness
from mesh.core.routes import PUBLISHED_HERE
from mesh.core.routing import LocalLink
from mesh.errors import TransportError
from mesh.model.control import LinkState
from mesh.model.effects import Relinked
from mesh.model.frames import MessageClass
from mesh.model.inputs import Input, QueueSeen
from mesh.model.names import fold
from mesh.model.queues import Attraction, MemberKind
from mesh.model.topology import Topology
from mesh.runtime.beside.moving import CHUNK, Mover
from mesh.runtime.lane.lane import Lane
from mesh.runtime.lanes.owned import Lanes
from mesh.transport.port import Consumer, KafkaCluster, TopicPartition

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

    @property
    def members(self) -> Sequence[Consumer]:
        """The memberships of groups of queues that it has just now."""
        return [one.consumer for one in self._movers.values()]

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
        if now_ms - self._looked_ms >= LOOK_MS:
            self._looked_ms = now_ms
            try:
                self._look(now_ms)
            except TransportError as error:
                log.warning("queues.unknown", fault=str(error))
                self._looked_ms = now_ms + RETRY_MS - LOOK_MS  # each try may wait for brokers
            else:
                yield from self._tell(leads=leads)
        for key in [key for key, one in self._movers.items() if not self._may_go_on(key, one)]:
            self._movers.pop(key).close()
        for queue, seen in self._seen.items():
            if seen.target is not None:
                for lane in list(self.lanes.owned.values()):
                    self._move(lane, queue, seen, link_states, now_ms, may_open=may_open)

    def close(self) -> None:
        """Leave the groups; whoever takes the lanes goes on."""
        for one in self._movers.values():
            one.close()
        self._movers.clear()

    # -- who consumes -----------------------------------------------------------------------

    def _look(self, now_ms: int) -> None:
        attractions = self.lanes.machine.router.table.attractions.all()
        parts = {
            one.queue: Part(one.kind.value)
            for one in attractions
            if one.node == self.node and one.kind is not MemberKind.LOCAL
        }
        for queue in [one for one in self._has_topic if one in parts]:
            del self._has_topic[queue]
        given = {**parts, **dict(self._left_behind(attractions, parts))}
        for queue in [queue for queue in self._seen if queue not in given]:
            del self._seen[queue]
        for known in (self._left, self._failed_ms, self._moved_ms, self._marks):
            for key in [key for key in known if key[1] not in given]:
                del known[key]
        near = Nearness(self.topology, self.node)
        for queue, part in given.items():
            seen = self._seen.setdefault(queue, _Seen(part, now_ms))
            group = self.lanes.names.endpoint(self.node, queue)
            seen.part, seen.is_member = part, queue in parts
            seen.consumers = sum(map(is_client, self.home.admin().group_members(group)))
            if seen.consumers:
                seen.consumed_ms = now_ms
            self._aim(queue, seen, attractions, near, now_ms)
        for mover in self._movers.values():
            mover.forget_lost()

    def _left_behind(
        self, attractions: Sequence[Attraction], parts: Mapping[str, Part]
    ) -> Iterator[tuple[str, Part]]:
        """Yield queues that this node has left with messages in them, while others have them."""
        own = {fold(queue): None for queue in parts}
        theirs = {
            one.queue: Part.ANY if one.kind is MemberKind.ANY else Part.PROXY
            for one in attractions
            if one.kind in (MemberKind.ANY, MemberKind.HOME) and one.name not in own
        }
        for queue in [one for one in self._has_topic if one not in theirs]:
            del self._has_topic[queue]
        unknown = {
            self.lanes.names.endpoint(self.node, queue): queue
            for queue in theirs
            if queue not in self._has_topic
        }
        if unknown:
            described = self.home.admin().describe(list(unknown))
            for topic, queue in unknown.items():
                self._has_topic[queue] = topic in described
        for queue, part in theirs.items():
            if self._has_topic[queue] and self._waiting(queue) > 0:
                yield queue, part

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
        return room_for(seen.consumers, self._waiting(queue)) if seen.consumers else 0

    def _waiting(self, queue: str) -> int:
        """Return how many records the queue's group has not passed, markers of Kafka included."""
        topic = self.lanes.names.endpoint(self.node, queue)
        count = self.topology.nodes[self.node].partitions
        places = [TopicPartition(topic, number) for number in range(count)]
        admin = self.home.admin()
        passed, starts = admin.passed(topic, places), admin.starts(places)
        return sum(
            end - max(passed.get(at, 0), starts.get(at, 0))
            for at, end in admin.stable_ends(places).items()
        )

    # -- what moves -------------------------------------------------------------------------

    def _may_go_on(self, key: tuple[int, str], one: Mover) -> bool:
        seen = self._seen.get(key[1])
        return self.lanes.owns(one.lane) and seen is not None and seen.target is not None

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
            # What is sent while sources hold is on its way still when its walk changes. K28
            is_held = self.lanes.sources.still.holding
            link = None if is_held else self._link_to(target, lane)
            most = self._may_send(key, seen, link, link_states) if link is not None else 0
            mover = self._movers.get(key)
            if link is None or most <= 0:
                if mover is not None:
                    self._rest(key, mover, now_ms)
                return
            self._moved_ms[key] = now_ms
            if mover is None:
                mover = self._open(lane, queue) if may_open else None
            if mover is None:
                return
            moved = mover.move(link, target.address, most)
            name, version, left = self._left[key]
            self._left[key] = (name, version, left - moved)
        except TransportError as error:
            log.warning("queue.not_moved", queue=queue, lane=lane.number, fault=str(error))
            self._failed_ms[key] = now_ms
            if (failed := self._movers.pop(key, None)) is not None:
                failed.close()

    def _open(self, lane: Lane, queue: str) -> Mover | None:
        mover = Mover.open(self.home, self.lanes, lane, queue)
        if mover is not None:
            self._movers[lane.number, queue] = mover
            mover.marks.update(self._marks.pop((lane.number, queue), {}))
        return mover

    def _rest(self, key: tuple[int, str], mover: Mover, now_ms: int) -> None:
        """Have a mover take nothing more; after a while it leaves, and comes back for work."""
        if now_ms - self._moved_ms.get(key, now_ms) < REST_MS:
            mover.rest()
            return
        self._marks[key] = dict(mover.marks)
        self._movers.pop(key).close()

    def _link_to(self, target: Attraction, lane: Lane) -> LocalLink | None:
        """Return the link on the way to a member; None if messages cannot go there just now.

        A member that is down, at whatever distance, is no target: direct messages would not go
        there. What has no need to wait there stays where somebody may consume it.
        """
        route, live = (lane.router.route(target.address, PUBLISHED_HERE, one) for one in _CLASSES)
        if len(route.neighbours) != 1 or tuple(live.neighbours) != tuple(route.neighbours):
            return None
        if route.neighbours[0] in lane.router.down:
            return None
        link = lane.link(route.neighbours[0])
        outbox = lane.names.outbox(lane.node, link.neighbour, MessageClass.GUARANTEED)
        is_full = (lane.number, outbox) in self.lanes.full
        return None if is_full or outbox in lane.positions.holds else link

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
