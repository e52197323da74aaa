"""What a worker's lanes read: found, identified and assigned as it appears. Spec: K3, K14, R6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from mesh.core.routing import LocalLink
from mesh.errors import TransportError
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.node.learner import Learner
from mesh.runtime.batch import RESERVED_MS
from mesh.runtime.intake import Intake
from mesh.runtime.lane import Lane, Source
from mesh.transport.port import Admin, Reader, TopicInfo, TopicPartition

RETRY_MS = 1_000

log = structlog.get_logger()


@dataclass(slots=True)
class _SourceTopic:
    """An ingress or outbox topic that this node reads."""

    name: str
    kafka: str
    message_class: MessageClass
    link: LocalLink | None
    info: TopicInfo | None = None


@dataclass(slots=True)
class Sources:
    """Finds the topics that the lanes read, and hands their partitions to the lanes.

    Attributes:
        moved: Partitions assigned since this was last cleared: what was fetched of them before
            must not be routed, because it is read again.
    """

    topology: Topology
    node: str
    learner: Learner
    admins: Mapping[str, Admin]
    readers: Mapping[str, Reader]
    intake: Intake
    moved: set[TopicPartition] = field(default_factory=set)
    _topics: dict[str, _SourceTopic] = field(default_factory=dict)
    _cut: tuple[str, ...] = ()
    _tried_ms: int = -RETRY_MS

    def __post_init__(self) -> None:
        """List them: the own ingress, and every neighbour's outbox for this node."""
        names = TopicNames(self.topology.prefix)
        nodes = self.topology.nodes
        for message_class in MessageClass:
            ingress = names.ingress(self.node, message_class)
            self._add(_SourceTopic(ingress, nodes[self.node].kafka, message_class, None))
            for link in self.learner.links:
                outbox = names.outbox(link.neighbour, self.node, message_class)
                kafka = nodes[link.neighbour].kafka
                self._add(_SourceTopic(outbox, kafka, message_class, link))

    def _add(self, topic: _SourceTopic) -> None:
        self._topics[topic.name] = topic

    def find(self, lanes: Mapping[int, Lane], now_ms: int) -> None:
        """Look for topics that did not exist yet; assign to lanes what they do not read yet."""
        if now_ms - self._tried_ms < RETRY_MS:
            return
        self._tried_ms = now_ms
        missing = [topic for topic in self._topics.values() if topic.info is None]
        for kafka, admin in self.admins.items():
            wanted = [topic for topic in missing if topic.kafka == kafka]
            if not wanted:
                continue
            try:
                found = admin.describe([topic.name for topic in wanted])
            except TransportError:
                continue
            for topic in wanted:
                topic.info = found.get(topic.name)
        for lane in lanes.values():
            self.start(lane, now_ms)

    def start(self, lane: Lane, now_ms: int) -> None:
        """Assign to a lane what it does not read yet, as far as brokers answer."""
        lanes = self.topology.nodes[self.node].lanes
        for topic in self._topics.values():
            if topic.info is None:
                continue
            places = [
                TopicPartition(topic.name, partition)
                for partition in range(lane.number, topic.info.partitions, lanes)
            ]
            new = [at for at in places if at not in lane.sources and at not in lane.halted]
            if not new:
                continue
            try:
                self._assign(lane, topic, topic.info.topic_id, new, now_ms)
            except TransportError as error:
                log.info("source.not_assigned", topic=topic.name, fault=str(error))

    def stop(self, lane: Lane) -> None:
        """Stop reading for a lane; what was fetched for it already is never routed."""
        for place in lane.sources:
            self.readers[self._topics[place.topic].kafka].unassign([place])
        self.intake.forget(list(lane.sources))
        lane.sources.clear()

    def halt(self, lane: Lane, place: TopicPartition) -> None:
        """Read one source no further; the others of the lane go on. Spec: K10."""
        lane.halted.add(place)
        self._leave(lane, place)

    def _leave(self, lane: Lane, place: TopicPartition) -> None:
        self.readers[self._topics[place.topic].kafka].unassign([place])
        self.intake.forget([place])
        del lane.sources[place]

    def _assign(
        self,
        lane: Lane,
        topic: _SourceTopic,
        topic_id: bytes,
        places: Sequence[TopicPartition],
        now_ms: int,
    ) -> None:
        if lane.positions.topic_ids.setdefault(topic.name, topic_id) != topic_id:
            # Positions belong to the topic that was: reading on would lose or repeat. Spec: R6.
            log.error("source.recreated", topic=topic.name, lane=lane.number)
            lane.halted.update(places)
            return
        if topic.message_class is MessageClass.DIRECT:
            places = self._resume_direct(lane, self.admins[topic.kafka], places, now_ms)
        is_cut = topic.link is not None and topic.link.neighbour in self._cut
        for place in places:
            lane.sources[place] = Source(place, topic_id, topic.message_class, topic.link)
        if not is_cut:
            self._read(topic.kafka, {at: lane.position(at) for at in places})

    def _read(self, kafka: str, positions: Mapping[TopicPartition, int]) -> None:
        self.moved.update(positions)
        self.readers[kafka].assign(positions)

    def _resume_direct(
        self, lane: Lane, admin: Admin, places: Sequence[TopicPartition], now_ms: int
    ) -> Sequence[TopicPartition]:
        """Go on behind all that may have been handed on; return what can be read now.

        A former owner used what it had reserved for at most `RESERVED_MS` after its last commit.
        What was in the log then may have gone out without a commit, and is skipped as far as it
        was reserved; what came later has not gone out. Spec: K18, R6.
        """
        inherited = lane.positions.inherited
        is_early = now_ms - lane.taken_ms <= RESERVED_MS
        ready = [at for at in places if not (is_early and at in inherited)]
        known = [at for at in ready if lane.position(at) >= 0]
        if not known:
            return ready
        starts, ends = admin.starts(known), admin.ends(known)
        for at in known:
            end = ends.get(at, 0)
            if end < lane.position(at):
                # Offsets come again with other messages in them, which identities do not allow.
                log.error("source.truncated", topic=at.topic, partition=at.partition, end=end)
                lane.halted.add(at)
                continue
            lane.skip(at, "takeover", min(inherited.get(at, 0), end), now_ms)
            lane.skip(at, "retention", starts.get(at, 0), now_ms)
            inherited.pop(at, None)
        return [at for at in ready if at not in lane.halted]

    def follow_lost(self, lanes: Mapping[int, Lane]) -> None:
        """See to partitions whose position is outside their log. Spec: R6.

        A direct one is assigned anew, to go on with what is still there.
        """
        for reader in self.readers.values():
            for place in reader.lost():
                log.error("source.lost", topic=place.topic, partition=place.partition)
                topic = self._topics[place.topic]
                lane = lanes.get(place.partition % self.topology.nodes[self.node].lanes)
                if topic.message_class is MessageClass.DIRECT and lane and place in lane.sources:
                    self._leave(lane, place)
                    topic.info = None  # perhaps it was made anew

    def cut(self, neighbours: Sequence[str], lanes: Mapping[int, Lane]) -> None:
        """Read nothing of exactly these neighbours; the others go on where they stood."""
        before, self._cut = self._cut, tuple(neighbours)
        for lane in lanes.values():
            for source in lane.sources.values():
                if source.link is None:
                    continue
                was, now = source.link.neighbour in before, source.link.neighbour in neighbours
                kafka = self._topics[source.at.topic].kafka
                if now and not was:
                    self.readers[kafka].unassign([source.at])
                    self.intake.forget([source.at])
                elif was and not now:
                    self._read(kafka, {source.at: lane.position(source.at)})
