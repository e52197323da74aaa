"""A topic that a client needs for every message, read twice a second at most."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mesh.transport.following import Follower
from mesh.transport.port import KafkaCluster, Record, TopicPartition

LOOK_MS = 500


class RecentRecords:
    """New records since the last look in a topic with one partition.

    Nothing is opened before the first look.

    Args:
        kafka: Where the topic is.
        topic: Its name.
        name: Client name of the reader.
        now_ms: Monotonic clock.
    """

    def __init__(
        self, kafka: KafkaCluster, topic: str, name: str, now_ms: Callable[[], int]
    ) -> None:
        self._kafka = kafka
        self._place = TopicPartition(topic, 0)
        self._name = name
        self._now_ms = now_ms
        self._follower: Follower | None = None
        self._next_ms = 0

    def look(self) -> Iterator[Record]:
        """Yield what is new, at first from the beginning; nothing if the last look was just now.

        Raises:
            TransportError: The topic cannot be read.
        """
        if self._now_ms() < self._next_ms:
            return
        self.rest(LOOK_MS)
        if self._follower is None:
            self._follower = Follower(self._kafka, self._name, self._now_ms)
            self._follower.add([self._place])
        yield from self._follower.poll()

    def rest(self, for_ms: int) -> None:
        """Do not look for this many milliseconds."""
        self._next_ms = self._now_ms() + for_ms

    def close(self) -> None:
        """Release the reader."""
        if self._follower is not None:
            self._follower.close()
