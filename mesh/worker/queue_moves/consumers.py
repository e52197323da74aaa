"""Which of a node's queues have consumers, and where the messages waiting here go. DESIGN 6.

Consumers are the members of a queue's group that are not the mesh's own. Kafka is queried beside
the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from mesh.core.moving import Part, is_client, room_for, target_of
from mesh.core.queues import Nearness
from mesh.core.redelivery import Share
from mesh.errors import TransportError
from mesh.model.control import Version
from mesh.model.effects import Relinked
from mesh.model.inputs import Input, QueueSeen
from mesh.model.names import fold
from mesh.model.queues import Attraction, MemberKind
from mesh.model.topology import Topology
from mesh.transport.partly import answers_so_far
from mesh.transport.port import Admin, KafkaCluster, Passed, TopicPartition
from mesh.worker.lanes.owned import Lanes

LOOK_MS = 1_000
"""How often to query the members of groups."""

GRACE_MS = 5_000
"""How long a queue must have no consumer here before messages leave: one may be restarting."""

RETRY_MS = 5_000
"""How long to query nothing after Kafka did not answer."""

NOWHERE = Passed(0)
"""Position of a group that has committed nothing."""

log = structlog.get_logger()


@dataclass(slots=True)
class SeenQueue:
    """A queue of this node from which messages may move on.

    Attributes:
        part: The node's role for it.
        is_member: Whether the node has the queue, or has left it with messages in it.
        consumers: Clients that consume it here.
        consumed_ms: When there last were any, or the queue was first seen.
        target: The member that gets what waits here, or None.
        room: How much that member could take in; None means unlimited.
        version: Version of the demand it published.
    """

    part: Part
    consumed_ms: int
    is_member: bool = True
    consumers: int = 0
    target: Attraction | None = None
    room: int | None = None
    version: Version = (0, 0)


@dataclass(frozen=True, slots=True)
class _Question:
    """What a look asks Kafka.

    Attributes:
        parts: Queues that the node has, and its role for them.
        theirs: Queues that only others have; the node may have left one with messages in it.
        unknown: Those of them that may or may not have a topic here.
        topics: Topic and group of each queue.
        partitions: How many a queue has.
        ends_written: How far outboxes must be read until all that movers wrote there is read.
    """

    parts: Mapping[str, Part]
    theirs: Mapping[str, Part]
    unknown: Sequence[str]
    topics: Mapping[str, str]
    partitions: int
    ends_written: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Told:
    """Kafka's answer about queues.

    Attributes:
        has_topic: Whether queues have a topic here, for those where that was unknown.
        consumers: Clients that consume them here.
        waiting: Records that their groups are not done with, including Kafka's markers.
        topic_ids: Ids of the outboxes that movers have written.
        ends: Where their partitions end.
        ends_written: How far they were to be read when the request was sent.
    """

    has_topic: Mapping[str, bool]
    consumers: Mapping[str, int]
    waiting: Mapping[str, int]
    topic_ids: Mapping[str, bytes]
    ends: Mapping[TopicPartition, int]
    ends_written: Mapping[TopicPartition, int]


@dataclass(slots=True)
class Consumers:
    """Looks for consumers of a node's queues.

    Attributes:
        topology, node: The mesh, and the node.
        home: The node's own Kafka cluster.
        lanes: What this worker owns.
        seen: Queues of this node from which messages may move on.
    """

    topology: Topology
    node: str
    home: KafkaCluster
    lanes: Lanes
    seen: dict[str, SeenQueue] = field(default_factory=dict)
    _rooms: dict[str, int] = field(default_factory=dict)
    _looked_ms: int = -LOOK_MS
    _has_topic: dict[str, bool] = field(default_factory=dict)
    _waiting: Mapping[str, int] = field(default_factory=dict)
    _asked: _Question | None = None

    def relink(self, relinked: Relinked, now_ms: int) -> None:
        """Switch to another topology, from the next look on."""
        self.topology = relinked.topology
        self._looked_ms = now_ms - LOOK_MS

    def look(
        self, ends_written: Callable[[], Mapping[TopicPartition, int]], now_ms: int
    ) -> Told | None:
        """Ask who consumes and how much waits, when it is time; return what is known by now.

        Args:
            ends_written: How far outboxes must be read until all that movers wrote there is read.
            now_ms: The present moment.
        """
        if self._asked is None:
            if now_ms - self._looked_ms < LOOK_MS:
                return None
            self._looked_ms = now_ms
            self._asked = self._to_ask(ends_written())
        asked = self._asked
        try:
            asking = partial(_ask, self.home.admin(), asked)
            told = self.lanes.sources.questions.answer(("queues",), asking)
        except TransportError as error:
            log.warning("queues.unknown", fault=str(error))
            self._asked = None
            self._looked_ms = now_ms + RETRY_MS - LOOK_MS
            return None
        if told is not None:
            self._asked = None
            self._follow(asked, told, now_ms)
        return told

    def _to_ask(self, ends_written: Mapping[TopicPartition, int]) -> _Question:
        attractions = self.lanes.machine.router.table.attractions.all()
        parts = {
            one.queue: Part(one.kind.value)
            for one in attractions
            if one.node == self.node and one.kind is not MemberKind.LOCAL
        }
        own = {fold(queue): None for queue in parts}
        clients = self.lanes.machine.learner.clients
        theirs = {
            one.queue: Part.ANY if one.kind is MemberKind.ANY else Part.PROXY
            for one in attractions
            if one.kind in (MemberKind.ANY, MemberKind.HOME) and one.name not in own
            if not clients.keeps_its_own(one.queue)
        }
        for queue in [one for one in self._has_topic if one not in theirs]:
            del self._has_topic[queue]
        unknown = [queue for queue in theirs if queue not in self._has_topic]
        theirs = {one: part for one, part in theirs.items() if self._has_topic.get(one, True)}
        topics = {one: self.lanes.names.endpoint(self.node, one) for one in {**parts, **theirs}}
        partitions = self.topology.nodes[self.node].partitions
        return _Question(parts, theirs, unknown, topics, partitions, ends_written)

    def _follow(self, asked: _Question, told: Told, now_ms: int) -> None:
        self._has_topic |= told.has_topic
        self._waiting = told.waiting
        left = {queue: one for queue, one in asked.theirs.items() if told.waiting.get(queue, 0)}
        given = {**asked.parts, **left}
        for queue in [queue for queue in self.seen if queue not in given]:
            del self.seen[queue]
        attractions = self.lanes.machine.router.table.attractions.all()
        near = Nearness(self.topology, self.node)
        for queue, part in given.items():
            seen = self.seen.setdefault(queue, SeenQueue(part, now_ms))
            seen.part, seen.is_member = part, queue in asked.parts
            seen.consumers = told.consumers.get(queue, 0)
            if seen.consumers:
                seen.consumed_ms = now_ms
            self._aim(queue, seen, attractions, near, now_ms)

    def _aim(
        self,
        queue: str,
        seen: SeenQueue,
        attractions: Sequence[Attraction],
        near: Nearness,
        now_ms: int,
    ) -> None:
        """Decide to which member messages of a queue are to move, and how many it has room for.

        While this node has consumers, and for a moment after the last of them left, it keeps its
        own.
        """
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

    def tell(self, *, leads: bool) -> Iterator[Input]:
        """Yield what the node publishes about its queues; nothing if another worker leads."""
        rooms = (
            {queue: self._room(queue, seen) for queue, seen in self.seen.items() if seen.is_member}
            if leads
            else {}
        )
        for queue in self._rooms.keys() - rooms.keys():
            yield QueueSeen(queue, None)
        for queue, room in rooms.items():
            yield QueueSeen(queue, room)
        self._rooms = rooms

    def _room(self, queue: str, seen: SeenQueue) -> int:
        return room_for(seen.consumers, self._waiting.get(queue, 0)) if seen.consumers else 0


def _ask(admin: Admin, asked: _Question) -> Told:
    """Query all queues at once: which exist, who consumes, and how much waits."""
    known = admin.describe([asked.topics[queue] for queue in asked.unknown])
    has_topic = {queue: asked.topics[queue] in known for queue in asked.unknown}
    topics = {one: topic for one, topic in asked.topics.items() if has_topic.get(one, True)}
    places = {
        queue: [TopicPartition(topic, number) for number in range(asked.partitions)]
        for queue, topic in topics.items()
    }
    every = [at for some in places.values() for at in some]
    passed: dict[TopicPartition, Passed] = {}
    for queue, topic in topics.items():
        passed |= admin.passed(topic, places[queue])
    # A queue with a leaderless partition does not stop the others from being moved.
    starts, _ = answers_so_far(partial(admin.starts, every))
    ends, _ = answers_so_far(partial(admin.stable_ends, every))
    waiting = {
        queue: sum(
            _waiting(passed.get(at, NOWHERE), starts.get(at, 0), ends[at])
            for at in some
            if at in ends
        )
        for queue, some in places.items()
    }
    consumers = {
        queue: sum(map(is_client, admin.group_members(topic))) for queue, topic in topics.items()
    }
    outboxes = admin.describe(list({at.topic: None for at in asked.ends_written}))
    ids = {name: info.topic_id for name, info in outboxes.items()}
    ends = admin.ends(list(asked.ends_written))
    return Told(has_topic, consumers, waiting, ids, ends, asked.ends_written)


def _waiting(passed: Passed, start: int, end: int) -> int:
    """Return how much of a partition is not done: consumers acknowledge individually."""
    begin = max(passed.offset, start)
    # A log that has lost its end may end before what its group has passed.
    return max(0, end - begin - Share.parse(passed.offset, passed.remark).done_from(begin))
