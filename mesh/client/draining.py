"""How much of what stands in outboxes their readers have not passed yet. Spec: K24, K28."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from mesh.client.health.progress import Progresses
from mesh.client.overview import read_range
from mesh.core.cutover import Direction
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.following import Follower
from mesh.transport.port import KafkaCluster, Record, TopicPartition

LAST_MAX = 1_000
"""So many offsets before the end of a partition are looked at for its last record; markers of
transactions and aborted records may lie behind it."""


class FollowedProgresses(Progresses):
    """The progress of all nodes, by readers that stay open: sources stand still meanwhile."""

    def __init__(
        self, topology: Topology, kafka: Mapping[str, KafkaCluster], now_ms: Callable[[], int]
    ) -> None:
        super().__init__(topology, kafka)
        self._now_ms = now_ms
        self._followers: dict[str, Follower] = {}

    def _new(
        self, name: str, kafka: KafkaCluster, places: Sequence[TopicPartition]
    ) -> Sequence[Record]:
        if name not in self._followers:
            self._followers[name] = Follower(kafka, "progress", self._now_ms)
            self._followers[name].add(places)
        return list(self._followers[name].poll())

    def close(self) -> None:
        """Release the readers."""
        for follower in self._followers.values():
            follower.close()


class Drain:
    """The outboxes of some links, up to where they ended at one moment.

    Args:
        directions: Senders and readers.
        topology: The topology in force.
        kafka: Its Kafka clusters.

    Raises:
        TransportError: A Kafka cluster does not answer.
    """

    def __init__(
        self,
        directions: Sequence[Direction],
        topology: Topology,
        kafka: Mapping[str, KafkaCluster],
    ) -> None:
        self._topology = topology
        self._kafka = kafka
        names = TopicNames(topology.prefix)
        self._direction_of: dict[str, Direction] = {
            names.outbox(*direction, message_class): direction
            for direction in directions
            for message_class in MessageClass
        }
        places: dict[str, list[TopicPartition]] = {}
        for topic, (sender, _) in self._direction_of.items():
            node = topology.nodes[sender]
            fresh = [TopicPartition(topic, number) for number in range(node.partitions)]
            places.setdefault(node.kafka, []).extend(fresh)
        # The high watermark: what an open transaction hides will be committed behind this.
        self._next: dict[TopicPartition, int] = {}
        self._unknown: dict[TopicPartition, int] = {}
        self._ends = {name: kafka[name].admin().ends(listed) for name, listed in places.items()}

    def behind(self, progresses: Progresses) -> Mapping[Direction, int]:
        """Return how many records below those ends each reader has not passed, where any are.

        Asked is what readers have committed, and not what they tell their neighbours: of several
        workers, one tells of its own lanes only.

        Args:
            progresses: Read just now.

        Raises:
            TransportError: A Kafka cluster does not answer.
        """
        found: Counter[Direction] = Counter()
        for name in list(self._ends):
            self._look_for_last(name)
        for place, last in {**self._next, **self._unknown}.items():
            direction = self._direction_of[place.topic]
            found[direction] += max(0, last - self._position(progresses, place))
        return {direction: count for direction, count in found.items() if count}

    def _look_for_last(self, name: str) -> None:
        """Find the offsets behind the last records of a Kafka cluster's outboxes, once."""
        ends = self._ends[name]
        admin = self._kafka[name].admin()
        stable, starts = admin.stable_ends(list(ends)), admin.starts(list(ends))
        if any(stable[place] < end for place, end in ends.items()):
            self._unknown.update(ends)  # what an open transaction hides is not to be read yet
            return
        begins = {
            place: max(starts.get(place, 0), end - LAST_MAX)
            for place, end in ends.items()
            if end > starts.get(place, 0)
        }
        for record in read_range(self._kafka[name], begins, ends, name="drain"):
            self._next[TopicPartition(record.topic(), record.partition())] = record.offset() + 1
        for place in self._ends.pop(name):
            self._unknown.pop(place, None)

    def _position(self, progresses: Progresses, place: TopicPartition) -> int:
        _, reader = self._direction_of[place.topic]
        found = progresses.of(reader).sources.get(place)
        return 0 if found is None else max(0, found.offset)
