"""How much of the outboxes' content their readers have not passed yet. Spec: K24, K28."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

from mesh.core.cutover import Direction
from mesh.model.frames import MessageClass
from mesh.model.topology import Topology
from mesh.transport.following import Follower
from mesh.transport.port import KafkaCluster, Reader, Record, TopicPartition, place_of
from mesh.view.lane_reports import LaneReports

LAST_MAX = 1_000
"""How many offsets before the end of a partition are searched for its last record; transaction
markers and aborted records may follow it."""


READ_LIMIT = 10_000
"""Records taken at a time."""

PATIENCE_MS = 10
"""How late readers notice the end of a log: sources hold meanwhile."""


class FollowedLaneReports(LaneReports):
    """The progress of all nodes, read by readers that stay open: sources hold meanwhile."""

    def __init__(
        self, topology: Topology, kafka: Mapping[str, KafkaCluster], now_ms: Callable[[], int]
    ) -> None:
        super().__init__(topology, kafka)
        self._followers: dict[str, Follower] = {}
        for name, places in self._places.items():
            self._followers[name] = Follower(kafka[name], "progress", now_ms, PATIENCE_MS)
            self._followers[name].add(places)

    @classmethod
    @contextmanager
    def begun(
        cls, topology: Topology, kafka: Mapping[str, KafkaCluster], now_ms: Callable[[], int]
    ) -> Iterator[FollowedLaneReports]:
        """Open them for a while; all begin to fetch before any one is waited for.

        Raises:
            TransportError: A Kafka cluster does not answer.
        """
        with closing(cls(topology, kafka, now_ms)) as made:
            made.begin()
            yield made

    def begin(self) -> None:
        """Let all readers start fetching."""
        for follower in self._followers.values():
            for record in follower.glance():
                self._take(record)

    def _new(
        self,
        name: str,
        kafka: KafkaCluster,  # noqa: ARG002
        places: Sequence[TopicPartition],  # noqa: ARG002
    ) -> Sequence[Record]:
        return list(self._followers[name].poll())

    def close(self) -> None:
        """Release the readers."""
        for follower in self._followers.values():
            follower.close()


class OutboxDrain:
    """The outboxes of some links, wave by wave, each up to where it ended at one moment.

    Args:
        waves: Senders and readers of each wave. The outboxes of all are read in the first one
            already: most still end there when their turn comes.
        topology: The topology in force.
        kafka: Its Kafka clusters.
        readers: One per Kafka cluster, that nobody else uses meanwhile.
    """

    def __init__(
        self,
        waves: Sequence[Sequence[Direction]],
        topology: Topology,
        kafka: Mapping[str, KafkaCluster],
        readers: Mapping[str, Reader],
    ) -> None:
        self._kafka = kafka
        self._readers = readers
        self._direction_of: dict[str, Direction] = {
            topology.names.outbox(*direction, message_class): direction
            for directions in waves
            for direction in directions
            for message_class in MessageClass
        }
        self._places: dict[str, list[TopicPartition]] = {}
        for topic, (sender, _) in self._direction_of.items():
            node = topology.nodes[sender]
            fresh = TopicPartition.all_of(topic, node.partitions)
            self._places.setdefault(node.kafka, []).extend(fresh)
        self._wave: dict[Direction, None] = {}
        self._topic_ids: dict[str, bytes] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._until: dict[TopicPartition, int] = {}  # how far it was read
        self._last: dict[TopicPartition, int] = {}  # after the last record found there
        self._looked_at: dict[str, dict[TopicPartition, None]] = {}

    def mark(self, directions: Sequence[Direction]) -> None:
        """Begin a wave: note where its outboxes end now.

        Raises:
            TransportError: A Kafka cluster does not answer.
        """
        self._wave = dict.fromkeys(directions)
        for name, places in self._places.items():
            admin = self._kafka[name].admin()
            # The high watermark: what an open transaction hides will be committed before it.
            wanted = [one for one in places if self._is_of_wave(one) or one not in self._ends]
            self._ends |= admin.ends(wanted)
            topics = {place.topic: None for place in wanted}
            for info in admin.describe(list(topics)).values():
                self._topic_ids[info.name] = info.topic_id

    def _is_of_wave(self, place: TopicPartition) -> bool:
        return self._direction_of[place.topic] in self._wave

    def behind(self, reports: LaneReports) -> Mapping[Direction, int]:
        """Return how many records below those ends each reader has not passed, if any.

        What counts is what readers have committed, not what they report to their neighbours: a
        worker reports only on its own lanes.

        Args:
            reports: Read just now.

        Raises:
            TransportError: A Kafka cluster does not answer.
        """
        found: Counter[Direction] = Counter()
        for name, places in self._places.items():
            there = [place for place in places if place in self._ends]
            # What is read to its very end, markers included, needs no check.
            self._look_at(
                name, [at for at in there if not self._is_known(at) and self._left(at, reports)]
            )
            self._find_last(name)
        for place in filter(self._is_of_wave, self._ends):
            found[self._direction_of[place.topic]] += self._left(place, reports)
        return {direction: count for direction, count in found.items() if count}

    def _left(self, place: TopicPartition, reports: LaneReports) -> int:
        last = self._last[place] if self._is_known(place) else self._ends[place]
        return max(0, last - self._position(reports, place))

    def _is_known(self, place: TopicPartition) -> bool:
        """Return whether the last record below the present end has been found."""
        return self._until.get(place) == self._ends[place]

    def _look_at(self, name: str, places: Sequence[TopicPartition]) -> None:
        """Start reading the ends of outboxes that nothing hides any more."""
        looked_at = self._looked_at.setdefault(name, {})
        fresh = [place for place in places if place not in looked_at]
        if not fresh:
            return
        admin = self._kafka[name].admin()
        stable, starts = admin.stable_ends(fresh), admin.starts(fresh)
        begins: dict[TopicPartition, int] = {}
        for place in fresh:
            end, until = self._ends[place], self._until.get(place, 0)
            if stable.get(place, 0) < end:
                continue  # what an open transaction hides is not readable yet
            if until > end:
                until = self._last[place] = 0  # it was recreated
            begin = max(starts.get(place, 0), end - LAST_MAX, until)
            if begin < end:
                begins[place] = begin
                looked_at[place] = None
            else:
                self._until[place] = end
                self._last.setdefault(place, 0)
        if begins:
            self._readers[name].assign(begins)

    def _find_last(self, name: str) -> None:
        """Take what they returned: only markers are left after the last record."""
        reader, looked_at = self._readers[name], self._looked_at.get(name, {})
        for record in reader.read(0, READ_LIMIT) if looked_at else ():
            place = place_of(record)
            if place in looked_at and record.offset() < self._ends[place]:
                self._last[place] = max(self._last.get(place, 0), record.offset() + 1)
        done = [place for place in looked_at if reader.position(place) >= self._ends[place]]
        if done:
            reader.unassign(done)
        for place in done:
            del looked_at[place]
            self._until[place] = self._ends[place]
            self._last.setdefault(place, 0)

    def _position(self, reports: LaneReports, place: TopicPartition) -> int:
        _, reader = self._direction_of[place.topic]
        report = reports.of(reader)
        found = report.read.sources.get(place)
        if found is None or found.topic_id != self._topic_ids.get(place.topic, found.topic_id):
            return 0  # an offset of a deleted topic of that name says nothing about this one
        return max(0, report.read.reached(place))
