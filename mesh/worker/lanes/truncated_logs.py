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

NONE_SEEN, NOT_ASKED = -1, -2
"""Instead of a leader epoch: brokers were asked without one, or not at all."""


_Position = tuple[bytes, int]
"""Topic id, and the next offset to read."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of what was read last.

    Attributes:
        epoch: The newest leader epoch by which it was read.
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
        expected_epochs: By partition where the record before the position is read once more: the
            newest leader epoch by which the log up to there is what was read.
    """

    expected_epochs: dict[TopicPartition, int] = field(default_factory=dict)
    _awaited_since_ms: dict[TopicPartition, int] = field(default_factory=dict)
    _doubted: dict[TopicPartition, int] = field(default_factory=dict)
    _agreed: dict[TopicPartition, tuple[_Position, int]] = field(default_factory=dict)

    def expect(self, lane: Lane, at: TopicPartition, start: int = 0) -> None:
        """Have the last record before the position read once more, if it is still there.

        Args:
            lane: Whose position.
            at: Where.
            start: First offset of the log, as far as it is known.
        """
        epoch = lane.leader_epoch(at)
        self._awaited_since_ms.pop(at, None)
        if epoch is not None and lane.position(at) > start:
            self.expected_epochs[at] = max(epoch, self._agreed_epoch(lane, at))

    def begin(self, at: TopicPartition, position: int) -> int:
        """Return the offset from which to read a partition."""
        return position - (at in self.expected_epochs)

    def agrees(self, at: TopicPartition, record: Record) -> bool:
        """Return whether the record read once more, or the first behind it, shows no later leader.

        If that one is gone, the first behind it says as much: with the same leader nothing can have
        been written before it since. With a later one only brokers can tell.
        """
        self._awaited_since_ms.pop(at, None)
        return (record.leader_epoch() or 0) <= self.expected_epochs.pop(at)

    def overdue(self, now_ms: int) -> Sequence[TopicPartition]:
        """Return the partitions whose record to be read once more does not arrive.

        If the log ends before it nothing arrives, and the reader gets no error: it just waits
        there.
        """
        since = self._awaited_since_ms
        return [
            at for at in self.expected_epochs if now_ms - since.setdefault(at, now_ms) >= AWAITED_MS
        ]

    def doubt(self, at: TopicPartition, seen_epoch: int = NONE_SEEN) -> None:
        """Ask brokers how far a log is what was read, when it is assigned again.

        Args:
            at: Where.
            seen_epoch: Leader epoch of a record behind the position that has been read since.
        """
        self._doubted[at] = seen_epoch

    def doubt_once(self, lane: Lane, at: TopicPartition) -> None:
        """Ask brokers likewise, unless they have agreed to this very position before."""
        if self._agreed_epoch(lane, at) == NOT_ASKED:
            self.doubt(at)

    def known(
        self, lane: Lane, places: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, Known]:
        """Return what is known of the last records read, for the look at where logs end."""
        return {
            at: Known(epoch, lane.position(at), at in self._doubted)
            for at in places
            if (epoch := lane.leader_epoch(at)) is not None
        }

    def looked_at(
        self,
        lane: Lane,
        places: Collection[TopicPartition],
        agreed: Collection[TopicPartition],
    ) -> None:
        """Record that brokers have answered.

        A leader that wrote behind a position to which they agree has written nothing before it:
        only a later one can cut the log off there from now on.

        Args:
            lane: Whose positions.
            places: The partitions.
            agreed: Those of which the logs are what was read.
        """
        for at in places:
            seen_epoch = self._doubted.pop(at, None)
            if seen_epoch is not None and at in agreed:
                self._agreed[at] = (_position(lane, at), seen_epoch)

    def forget(self, at: TopicPartition) -> None:
        """Record that a partition is no longer read."""
        self.expected_epochs.pop(at, None)
        self._awaited_since_ms.pop(at, None)

    def _agreed_epoch(self, lane: Lane, at: TopicPartition) -> int:
        """Return which later leader had written when brokers agreed to this very position."""
        known = self._agreed.get(at)
        return known[1] if known is not None and known[0] == _position(lane, at) else NOT_ASKED


def _position(lane: Lane, at: TopicPartition) -> _Position:
    return lane.progress.topic_ids.get(at, b""), lane.position(at)
