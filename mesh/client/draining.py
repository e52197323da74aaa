"""How much of what stands in outboxes their readers have not passed yet. Spec: K24, K28."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

from mesh.client.health.progress import Progresses
from mesh.core.cutover import Direction
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.following import Follower
from mesh.transport.port import KafkaCluster, Reader, Record, TopicPartition

LAST_MAX = 1_000
"""So many offsets before the end of a partition are looked at for its last record; markers of
transactions and aborted records may lie behind it."""


READ_LIMIT = 10_000
"""Records taken at a time."""

PATIENCE_MS = 10
"""How late readers notice the end of a log: sources stand still meanwhile."""


class FollowedProgresses(Progresses):
    """The progress of all nodes, by readers that stay open: sources stand still meanwhile."""

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
    ) -> Iterator[FollowedProgresses]:
        """Open them for a while, and have all begin to fetch before one is waited for.

        Raises:
            TransportError: A Kafka cluster does not answer.
        """
        with closing(cls(topology, kafka, now_ms)) as made:
            made.begin()
            yield made

    def begin(self) -> None:
        """Have all readers begin to fetch."""
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


class Drain:
    """The outboxes of some links, up to where they ended at one moment.

    Args:
        directions: Senders and readers.
        topology: The topology in force.
        kafka: Its Kafka clusters.
        readers: One per Kafka cluster, that nobody else uses meanwhile.

    Raises:
        TransportError: A Kafka cluster does not answer.
    """

    def __init__(
        self,
        directions: Sequence[Direction],
        topology: Topology,
        kafka: Mapping[str, KafkaCluster],
        readers: Mapping[str, Reader],
    ) -> None:
        self._kafka = kafka
        self._readers = readers
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
        self._ends = {
            name: dict(kafka[name].admin().ends(listed)) for name, listed in places.items()
        }
        self._topic_ids = {
            info.name: info.topic_id
            for name, listed in places.items()
            for info in kafka[name].admin().describe(_topics(listed)).values()
        }
        self._next: dict[TopicPartition, int] = {}
        self._unknown = {place: end for ends in self._ends.values() for place, end in ends.items()}
        self._looked_at: dict[str, Sequence[TopicPartition]] = {}

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
            if name not in self._looked_at:
                self._forget_passed(name, progresses)
                self._look_at(name)
        for name in list(self._looked_at):
            self._find_last(name)
        for place, last in {**self._next, **self._unknown}.items():
            direction = self._direction_of[place.topic]
            found[direction] += max(0, last - self._position(progresses, place))
        return {direction: count for direction, count in found.items() if count}

    def _forget_passed(self, name: str, progresses: Progresses) -> None:
        """Ask no broker about outboxes that are read to their very ends, markers included."""
        ends = self._ends[name]
        for place in [one for one in ends if self._position(progresses, one) >= ends[one]]:
            del ends[place], self._unknown[place]

    def _look_at(self, name: str) -> None:
        """Begin to read the ends of a Kafka cluster's outboxes, once nothing hides them."""
        ends = self._ends[name]
        if not ends:
            del self._ends[name]
            return
        admin = self._kafka[name].admin()
        stable, starts = admin.stable_ends(list(ends)), admin.starts(list(ends))
        if any(stable[place] < end for place, end in ends.items()):
            return  # what an open transaction hides is not to be read yet
        begins = {
            place: max(starts.get(place, 0), end - LAST_MAX)
            for place, end in ends.items()
            if end > starts.get(place, 0)
        }
        self._readers[name].assign(begins)
        self._looked_at[name] = list(begins)

    def _find_last(self, name: str) -> None:
        """Take what has come of them: behind the last record only markers are left."""
        reader, ends, begins = self._readers[name], self._ends[name], self._looked_at[name]
        for record in reader.read(0, READ_LIMIT):
            place = TopicPartition(record.topic(), record.partition())
            if record.offset() < ends.get(place, 0):
                self._next[place] = record.offset() + 1
        if all(reader.position(place) >= ends[place] for place in begins):
            reader.unassign(begins)
            del self._looked_at[name]
            for place in self._ends.pop(name):
                self._unknown.pop(place, None)

    def _position(self, progresses: Progresses, place: TopicPartition) -> int:
        _, reader = self._direction_of[place.topic]
        found = progresses.of(reader).sources.get(place)
        if found is None or found.topic_id != self._topic_ids.get(place.topic, found.topic_id):
            return 0  # an offset of a topic of that name that was deleted says nothing of this one
        return max(0, found.offset)


def _topics(places: Sequence[TopicPartition]) -> Sequence[str]:
    return list({place.topic: None for place in places})
