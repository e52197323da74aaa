"""Logs that lost their end and have grown beyond it since: leader epochs reveal them. Spec: R6.

A position in such a log looks sound, but the record before it is not the one that was read. So the
last record is read once more before anything else, and its leader epoch compared.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.lane.lane import Lane
from mesh.transport.port import Record, TopicPartition

AWAITED_MS = 5_000
"""How long to wait for a record that is read once more: after that it may be gone."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the record that was read last.

    Attributes:
        epoch: Its leader epoch.
        position: The offset behind it.
        is_doubted: Whether the log may have lost its end, and have grown beyond that since.
    """

    epoch: int
    position: int
    is_doubted: bool


@dataclass(slots=True)
class LastRead:
    """What is known of the records that were read last.

    Attributes:
        expected_epochs: Leader epoch of the record before the position, by partition, where that
            record is read once more.
    """

    expected_epochs: dict[TopicPartition, int] = field(default_factory=dict)
    _awaited_since_ms: dict[TopicPartition, int] = field(default_factory=dict)
    _doubted: dict[TopicPartition, None] = field(default_factory=dict)

    def expect(self, lane: Lane, at: TopicPartition, start: int) -> None:
        """Have the last record before the position read once more, if it is still there.

        Args:
            lane: Whose position.
            at: Where.
            start: First offset of the log.
        """
        epoch = lane.progress.leader_epochs.get(at)
        if epoch is not None and lane.position(at) > start:
            self.expected_epochs[at] = epoch

    def begin(self, at: TopicPartition, position: int) -> int:
        """Return the offset from which to read a partition."""
        return position - (at in self.expected_epochs)

    def agrees(self, lane: Lane, at: TopicPartition, record: Record) -> bool:
        """Return whether the record read once more is the one that was read."""
        epoch = self.expected_epochs.pop(at)
        self._awaited_since_ms.pop(at, None)
        return record.offset() >= lane.position(at) or (record.leader_epoch() or 0) <= epoch

    def overdue(self, now_ms: int) -> Sequence[TopicPartition]:
        """Return the partitions whose record to be read once more does not arrive.

        If the log ends before it nothing arrives, and the reader gets no error: it just waits
        there.
        """
        since = self._awaited_since_ms
        return [
            at for at in self.expected_epochs if now_ms - since.setdefault(at, now_ms) >= AWAITED_MS
        ]

    def doubt(self, at: TopicPartition) -> None:
        """Ask brokers how far a log is what was read, when it is assigned again."""
        self._doubted[at] = None

    def known(
        self, lane: Lane, places: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, Known]:
        """Return what is known of the last records read, for the look at where logs end."""
        epochs = lane.progress.leader_epochs
        return {
            at: Known(epochs[at], lane.position(at), at in self._doubted)
            for at in places
            if at in epochs
        }

    def looked_at(self, places: Collection[TopicPartition]) -> None:
        """Record that brokers have answered."""
        for at in places:
            self._doubted.pop(at, None)

    def forget(self, at: TopicPartition) -> None:
        """Record that a partition is no longer read."""
        self.expected_epochs.pop(at, None)
        self._awaited_since_ms.pop(at, None)
