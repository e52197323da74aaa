"""Reads what the node's own topics say about it, from a reader that is ready. Spec: K16.

A worker that takes a lane must read its progress to the end before anything else, and a new Kafka
client needs half a second for its first record. So one reader stands ready from the worker's start.
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
"""How long to wait without any record: writers were fenced before, so none holds up the end."""

log = structlog.get_logger()

_ReadToEnd = Callable[[Sequence[TopicPartition]], Iterator[Record]]


class Recall:
    """Reads partitions of the node's own topics on request; threads may share it.

    Args:
        kafka: The node's own Kafka cluster.
        places: The partitions that are mostly requested.
        now_ms: Clock for the deadline.
    """

    def __init__(
        self, kafka: KafkaCluster, places: Sequence[TopicPartition], now_ms: Callable[[], int]
    ) -> None:
        self._kafka, self._now_ms = kafka, now_ms
        self._early: dict[TopicPartition, list[Record]] = {}
        self._follower = self._open()
        self._follower.add(places)
        self._follower.prefetch()
        self._lock = threading.Lock()

    def records(self, place: TopicPartition) -> Sequence[Record]:
        """Return every committed record of a partition, up to its present high watermark.

        It is not followed afterwards; on a new call it is read from the beginning.

        Raises:
            TransportUnavailableError: The end was not reached in time.
        """
        with self._lock:
            return self._read(place, self._follower.catch_up)

    def decided(self, place: TopicPartition) -> Sequence[Record]:
        """Return the committed records before any open transaction: its end is not awaited.

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
            # A reader has been seen to find nothing ever again after its only broker had been away.
            self._follower.close()
            self._follower = self._open()
            raise
        finally:
            self._follower.remove(place)
            # A reader drops a partition only at its next read, which may never come: until then it
            # would poll the broker for it, ten times a second.
            self._keep(self._follower.fetched())
            found = self._early.pop(place, [])
        return found

    def _open(self) -> Follower:
        now_ms, forget = self._now_ms, self._forget
        return Follower(self._kafka, "recall", now_ms, deadline_ms=DEADLINE_MS, begun_again=forget)

    def _forget(self, place: TopicPartition) -> None:
        """Forget what was fetched early: the log is another one now, or has lost its end."""
        self._early.pop(place, None)

    def _keep(self, records: Iterator[Record]) -> None:
        for record in records:
            place = TopicPartition(record.topic(), record.partition())
            self._early.setdefault(place, []).append(record)

    def close(self) -> None:
        """Release the reader."""
        self._follower.close()


def read_progress(records: Sequence[Record]) -> ProgressLog:
    """Return what is readable in a partition of `progress`; records of strangers are logged.

    Raises:
        TransportUnreadableError: A record hides the position of its lane.
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
