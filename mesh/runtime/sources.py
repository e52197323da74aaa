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
from mesh.runtime.intake import Intake
from mesh.runtime.lane import Lane, Source
from mesh.transport.port import BEGINNING, Admin, Reader, TopicInfo, TopicPartition

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
    """Finds the topics that the lanes read, and hands their partitions to the lanes."""

    topology: Topology
    node: str
    learner: Learner
    admins: Mapping[str, Admin]
    readers: Mapping[str, Reader]
    intake: Intake
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
        """Look for topics that did not exist yet; assign what is found to the lanes."""
        if now_ms - self._tried_ms < RETRY_MS:
            return
        missing = [topic for topic in self._topics.values() if topic.info is None]
        if not missing:
            return
        self._tried_ms = now_ms
        for kafka, admin in self.admins.items():
            wanted = [topic for topic in missing if topic.kafka == kafka]
            if not wanted:
                continue
            try:
                found = admin.describe([topic.name for topic in wanted])
                for topic in wanted:
                    if (info := found.get(topic.name)) is not None:
                        for lane in lanes.values():
                            self._assign(lane, topic, info, now_ms)
                        topic.info = info
            except TransportError:
                continue

    def start(self, lane: Lane, now_ms: int) -> None:
        """Assign everything found so far to a lane that was just taken.

        Raises:
            TransportError: Where logs end could not be learnt.
        """
        for topic in self._topics.values():
            if topic.info is not None:
                self._assign(lane, topic, topic.info, now_ms)

    def stop(self, lane: Lane) -> None:
        """Stop reading for a lane; what was fetched for it already is never routed."""
        for place in lane.sources:
            self.readers[self._topics[place.topic].kafka].unassign([place])
        self.intake.forget(list(lane.sources))
        lane.sources.clear()

    def halt(self, lane: Lane, place: TopicPartition) -> None:
        """Read one source no further; the others of the lane go on. Spec: K10."""
        self.readers[self._topics[place.topic].kafka].unassign([place])
        self.intake.forget([place])
        del lane.sources[place]

    def _assign(self, lane: Lane, topic: _SourceTopic, info: TopicInfo, now_ms: int) -> None:
        known = lane.positions.topic_ids.get(info.name)
        if known is not None and known != info.topic_id:
            # Positions belong to the topic that was: reading on would lose or repeat. Spec: R6.
            log.error("source.recreated", topic=info.name, lane=lane.number)
            return
        lanes = self.topology.nodes[self.node].lanes
        is_cut = topic.link is not None and topic.link.neighbour in self._cut
        positions: dict[TopicPartition, int] = {}
        for partition in range(lane.number, info.partitions, lanes):
            place = TopicPartition(info.name, partition)
            lane.sources[place] = Source(place, info.topic_id, topic.message_class, topic.link)
            positions[place] = lane.positions.next.get(place, BEGINNING)
        if topic.message_class is MessageClass.DIRECT:
            read = [place for place in positions if place in lane.positions.next]
            positions |= self._resume_direct(lane, topic, read, now_ms)
        if not is_cut:
            self.readers[topic.kafka].assign(positions)

    def cut(self, neighbours: Sequence[str], lanes: Mapping[int, Lane]) -> None:
        """Read nothing of exactly these neighbours; the others go on where they stood."""
        before, self._cut = self._cut, tuple(neighbours)
        for lane in lanes.values():
            for source in lane.sources.values():
                if source.link is None:
                    continue
                was, now = source.link.neighbour in before, source.link.neighbour in neighbours
                reader = self.readers[self._topics[source.at.topic].kafka]
                if now and not was:
                    reader.unassign([source.at])
                    self.intake.forget([source.at])
                elif was and not now:
                    reader.assign({source.at: lane.position(source.at)})

    def _resume_direct(
        self, lane: Lane, topic: _SourceTopic, places: Sequence[TopicPartition], now_ms: int
    ) -> Mapping[TopicPartition, int]:
        """Return where to go on: behind all that may have been handed on, if it is still there.

        What a former owner had reserved is skipped as far as the log goes now: it may have gone
        out without a commit. What comes later was never seen by it. Spec: K18, R6.
        """
        if not places:
            return {}  # never read: from the beginning
        admin = self.admins[topic.kafka]
        starts, ends = admin.starts(places), admin.ends(places)
        for place in places:
            stood = lane.position(place)
            end = ends.get(place, stood)
            passed = min(lane.positions.ahead.get(place, 0), end)
            lane.skip(place, "takeover", max(passed, stood), now_ms)
            lane.skip(place, "retention", max(starts.get(place, 0), lane.position(place)), now_ms)
            lane.skip(place, "truncated", min(end, lane.position(place)), now_ms)
            lane.positions.ahead[place] = 0
        return {place: lane.position(place) for place in places}

    def follow_lost(self, lanes: Mapping[int, Lane], now_ms: int) -> None:
        """See to partitions whose position is outside their log. Spec: R6.

        A direct one goes on with what is there, and what was missed is counted.
        """
        for reader in self.readers.values():
            for place in reader.lost():
                self._lose(place, lanes, now_ms)

    def _lose(self, place: TopicPartition, lanes: Mapping[int, Lane], now_ms: int) -> None:
        topic = self._topics[place.topic]
        lane = lanes.get(place.partition % self.topology.nodes[self.node].lanes)
        log.error("source.lost", topic=place.topic, partition=place.partition)
        if (
            lane is None
            or place not in lane.sources
            or topic.message_class is not MessageClass.DIRECT
        ):
            return
        lane.positions.ahead[place] = 0  # its own: how far it went is known
        try:
            positions = self._resume_direct(lane, topic, [place], now_ms)
        except TransportError as error:
            log.warning("source.not_resumed", topic=place.topic, fault=str(error))
        else:
            self.readers[topic.kafka].assign(positions)
