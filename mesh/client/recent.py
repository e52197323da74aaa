"""A topic that a client needs for every message, read twice a second at most."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mesh.model.control import NO_TOPIC
from mesh.transport.following import Follower
from mesh.transport.port import KafkaCluster, Record, TopicPartition

LOOK_MS = 500
SAME_MS = 10_000
"""How often to check that the topic is still the same: another one of its name may have outgrown
the position, and only its id tells."""


class RecentRecords:
    """New records since the last look in a topic with one partition.

    Nothing is opened before the first look.

    Args:
        kafka: Where the topic is.
        topic: Its name.
        name: Client name of the reader.
        now_ms: Monotonic clock.
        forget: Called before everything is read again, because the topic was recreated or has lost
            its end: what it said before may have ended unseen.
    """

    def __init__(
        self,
        kafka: KafkaCluster,
        topic: str,
        name: str,
        now_ms: Callable[[], int],
        forget: Callable[[], None] = lambda: None,
    ) -> None:
        self._kafka = kafka
        self._place = TopicPartition(topic, 0)
        self._name = name
        self._now_ms = now_ms
        self._forget = forget
        self._follower: Follower | None = None
        self._topic_id = NO_TOPIC
        self._passed = 0
        self._next_ms = self._same_ms = 0

    def look(self) -> Iterator[Record]:
        """Yield what is new, at first from the beginning; nothing if the last look was just now.

        Raises:
            TransportError: The topic cannot be read.
        """
        if self._now_ms() < self._next_ms:
            return
        self.rest(LOOK_MS)
        if self._now_ms() >= self._same_ms:
            self._see_whether_it_is_the_same()
        if self._follower is None:
            self._follower = Follower(self._kafka, self._name, self._now_ms)
            self._follower.add([self._place])
        for record in self._follower.poll():
            if record.offset() < self._passed:
                self._forget()
            self._passed = record.offset() + 1
            yield record

    def _see_whether_it_is_the_same(self) -> None:
        """Begin again if there is another topic by now; while there is none, its word counts."""
        self._same_ms = self._now_ms() + SAME_MS
        topic = self._place.topic
        found = self._kafka.admin().describe([topic]).get(topic)
        if found is None:
            return
        known, self._topic_id = self._topic_id, found.topic_id
        if known not in (NO_TOPIC, found.topic_id):
            self.close()
            self._follower, self._passed = None, 0
            self._forget()

    def rest(self, for_ms: int) -> None:
        """Do not look for this many milliseconds."""
        self._next_ms = self._now_ms() + for_ms

    def close(self) -> None:
        """Release the reader."""
        if self._follower is not None:
            self._follower.close()
