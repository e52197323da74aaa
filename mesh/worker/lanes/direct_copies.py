"""Direct copies on their way to the brokers: few requests with many copies, a moment apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import structlog

from mesh.lane.handover import count_refused
from mesh.lane.lane import Lane
from mesh.transport.port import Writer
from mesh.worker.process.clock import Clock

MS_PER_REQUEST = 4
FLUSH_MS = 1_000
LEAVE_S = 0.5
"""How long a worker that gives lanes up waits for the last copies: its successor waits too."""

GAP_MS = 50
"""The longest gap between two writes of direct copies. The gap is a few ms per partition written
to, or half the length of a commit if that is more. The client library sends one request per
partition, which costs far more CPU than the copies do: a little patience makes few requests with
many copies, and more patience helps where the broker is busy."""

log = structlog.get_logger()


@dataclass(slots=True)
class DirectCopies:
    """Writes the direct copies that lanes have ready.

    Attributes:
        writer: Of the node's own Kafka cluster.
        clock: Time.
        commit_ms: How long the last commit took: how busy the broker is.
    """

    writer: Writer
    clock: Clock
    commit_ms: int = 0
    _written_ms: int = -GAP_MS
    _gap_ms: int = 0
    _flushed_ms: int = 0
    _failed: int = 0

    @property
    def due_ms(self) -> int:
        """When copies may be written again."""
        return self._written_ms + self._gap_ms

    def write_due(self, lanes: Sequence[Lane]) -> None:
        """Write what is ready, unless the last copies were written a moment ago."""
        if self.clock.now_ms() >= self.due_ms:
            self.write(lanes)

    def settle(self, lanes: Iterable[Lane]) -> None:
        """Let lanes know that all copies are in Kafka, if that is so."""
        if self.writer.pending():
            return
        self._failed += self.writer.failed()
        if not self._failed:
            for lane in lanes:
                lane.direct.all_written()

    def write(self, lanes: Sequence[Lane]) -> None:
        """Write what is ready, at once."""
        self.settle(lanes)
        partitions: set[tuple[str, int]] = set()
        for lane in lanes:
            for topic, partition, rows in lane.direct.ready:
                self.writer.produce_all(topic, partition, rows)
                partitions.add((topic, partition))
            lane.direct.ready_sent()
        if partitions:
            self._written_ms = self.clock.now_ms()
            gap = max(MS_PER_REQUEST * len(partitions), self.commit_ms // 2)
            self._gap_ms = min(GAP_MS, gap)

    def count_failed(self, lanes: Iterable[Lane], now_ms: int) -> None:
        """Have lanes count what the writer could not deliver; replace it if it died.

        Args:
            lanes: All whose copies it writes.
            now_ms: The present moment.
        """
        if now_ms - self._flushed_ms < FLUSH_MS:
            return
        self._flushed_ms = now_ms
        self._failed += self.writer.failed()
        if failed := self._failed:
            self._failed = 0
            log.warning("direct.lost", records=failed)
            for lane in lanes:
                count_refused(lane, now_ms)

    def flush(self) -> int:
        """Wait a moment until all are written; return how many were not."""
        failed, self._failed = self._failed + self.writer.flush(LEAVE_S), 0
        return failed
