"""How much of what stands in outboxes their readers have not passed yet. Spec: K24, K28."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from mesh.client.health.progress import Progresses
from mesh.client.overview import read_range
from mesh.core.cutover import Direction
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.port import KafkaCluster, TopicPartition

COUNTED_MAX = 1_000
"""Offsets of one partition that are looked at one by one; above, offsets are counted."""


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
        self._ends = {name: kafka[name].admin().ends(listed) for name, listed in places.items()}

    def behind(self, progresses: Progresses) -> Mapping[Direction, int]:
        """Return how many records below those ends each reader has not passed, where any are.

        Transaction markers do not count. Asked is what readers have committed, and not what they
        tell their neighbours: of several workers, one tells of its own lanes only.

        Args:
            progresses: Read just now.

        Raises:
            TransportError: A Kafka cluster does not answer.
        """
        found: Counter[Direction] = Counter()
        for name, ends in self._ends.items():
            admin = self._kafka[name].admin()
            stable, starts = admin.stable_ends(list(ends)), admin.starts(list(ends))
            begins: dict[TopicPartition, int] = {}
            for place, end in ends.items():
                direction = self._direction_of[place.topic]
                begin = max(self._position(progresses, place), starts.get(place, 0))
                if stable[place] < end:
                    found[direction] += end - stable[place]
                elif end - begin > COUNTED_MAX:
                    found[direction] += end - begin
                elif end > begin:
                    begins[place] = begin
            for record in read_range(self._kafka[name], begins, ends, name="drain"):
                found[self._direction_of[record.topic()]] += 1
        return dict(found)

    def _position(self, progresses: Progresses, place: TopicPartition) -> int:
        _, reader = self._direction_of[place.topic]
        found = progresses.of(reader).sources.get(place)
        return 0 if found is None else max(0, found.offset)
