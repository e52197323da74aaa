"""When a lane commits: rarely enough that brokers keep up, and no later than promised. K17."""

from __future__ import annotations

from dataclasses import dataclass

from mesh.lane.batch import Batch

BATCH_RECORDS = 10_000
BATCH_MS = 100
"""A batch closes after 10,000 records read or delivered, or after 100 ms. A frame passed on is one
record, however many messages it has: it costs as much as one, and a commit as much as many.
Spec: K17."""

COMMIT_GAP_MS = 20
"""Minimum time between two commits: each costs the broker a few ms of CPU."""

REST_PER_COMMIT = 3
"""After a commit lanes rest this many times its duration before the next, up to `BATCH_MS`: where
brokers are busy, batches grow instead of the queue of transactions."""


@dataclass(slots=True)
class Pace:
    """The pace of all lanes of a worker: their commits go to the same brokers."""

    _committed_ms: int = -COMMIT_GAP_MS
    _gap_ms: int = COMMIT_GAP_MS

    def committed(self, took_ms: int, now_ms: int) -> None:
        """Record a finished commit."""
        self._committed_ms = now_ms
        self._gap_ms = min(BATCH_MS, max(COMMIT_GAP_MS, REST_PER_COMMIT * took_ms))

    def is_time(self, now_ms: int) -> bool:
        """Return whether lanes that need not wait longer may commit: all in one turn."""
        return now_ms - self._committed_ms >= self._gap_ms

    def due_ms(self, batch: Batch) -> int:
        """Return when to commit a batch if nothing more is read."""
        return self._committed_ms + self._gap_ms if batch.is_awaited else batch.opened_ms + BATCH_MS


def is_full(batch: Batch, now_ms: int) -> bool:
    """Return whether a batch has reached a limit."""
    return batch.records >= BATCH_RECORDS or now_ms - batch.opened_ms >= BATCH_MS
