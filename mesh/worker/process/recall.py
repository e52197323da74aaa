"""What the node's own topics say of it, fetched while nobody waits for it. Spec: K16.

Who takes a lane must read its progress to the end before anything else, and a new client of Kafka
needs half a second for its first record. So one reader stands ready from the worker's start.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

import structlog

from mesh.errors import TransportStalledError
from mesh.lane.progress_log import ProgressLog, fold_progress, key_text
from mesh.transport.following import Follower
from mesh.transport.port import KafkaCluster, Record, TopicPartition

DEADLINE_MS = 20_000
"""How long nothing may come: who may write there was fenced before, so nobody's end is awaited."""

log = structlog.get_logger()

_ReadToEnd = Callable[[Sequence[TopicPartition]], Iterator[Record]]


class Recall:
    """Reads partitions of the node's own topics, each when it is asked for; threads may share it.

    Args:
        kafka: The node's own Kafka cluster.
        places: What will be asked for, mostly.
        now_ms: Clock for the deadline.
    """

    def __init__(
        self, kafka: KafkaCluster, places: Sequence[TopicPartition], now_ms: Callable[[], int]
    ) -> None:
        self._kafka, self._now_ms = kafka, now_ms
        self._follower = self._open()
        self._follower.add(places)
        self._follower.prefetch()
        self._lock = threading.Lock()
        self._early: dict[TopicPartition, list[Record]] = {}

    def records(self, place: TopicPartition) -> Sequence[Record]:
        """Return every committed record of a partition, up to its present high watermark.

        It is not followed afterwards; asked again, it is read from the beginning.

        Raises:
            TransportUnavailableError: The end was not reached in time.
        """
        with self._lock:
            return self._read(place, self._follower.catch_up)

    def decided(self, place: TopicPartition) -> Sequence[Record]:
        """Return the committed records that no open transaction hides: nobody's end is awaited.

        Raises:
            TransportUnavailableError: The end was not reached in time.
        """
        with self._lock:
            return self._read(place, self._follower.poll)

    def _read(self, place: TopicPartition, read_to_end: _ReadToEnd) -> list[Record]:
        self._follower.add([place])
        try:
            self._keep(read_to_end([place]))
        except TransportStalledError:
            # A reader was seen to find nothing more for good, after its only broker had been away.
            self._follower.close()
            self._follower = self._open()
            raise
        finally:
            self._follower.remove(place)
            # A reader lets go of a partition when it is read next, which may never be: until then
            # it would ask the broker for news of it, ten times a second.
            self._keep(self._follower.fetched())
            found = self._early.pop(place, [])
        return found

    def _open(self) -> Follower:
        return Follower(self._kafka, "recall", self._now_ms, deadline_ms=DEADLINE_MS)

    def _keep(self, records: Iterator[Record]) -> None:
        for record in records:
            place = TopicPartition(record.topic(), record.partition())
            self._early.setdefault(place, []).append(record)

    def close(self) -> None:
        """Release the reader."""
        self._follower.close()


def read_progress(records: Sequence[Record]) -> ProgressLog:
    """Return what can be read of a partition of `progress`; what strangers wrote there is logged.

    Raises:
        TransportUnreadableError: A record hides where its lane stood.
    """
    kept = fold_progress(records)
    for record, fault in kept.strays:
        log.warning(
            "progress.stray",
            topic=record.topic(),
            partition=record.partition(),
            offset=record.offset(),
            key=key_text(record.key() or b""),
            fault=str(fault),
        )
    return kept
