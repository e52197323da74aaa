"""How many bytes wait in a partition, and for how long, as far as the writer counted them.

Kafka does not say how many bytes follow an offset. So the writer counts, and notes now and then
where the log ends: everything written since the newest moment whose records have all been read
is waiting.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mesh.lane.lane import Lane
from mesh.transport.port import TopicPartition

SAMPLES_MAX = 1_000

RELIEF = 0.5
"""What was full no longer is once only this share of the limit waits."""

Written = Mapping[TopicPartition, tuple[Lane, int]]
"""The partitions in question: their lane, and bytes written to them so far."""


def written_to(lanes: Iterable[Lane], topics: Iterable[str]) -> Written:
    """Return how much lanes have written to their partitions of some topics."""
    names = list(topics)
    return {
        at: (lane, lane.written.get(at, 0))
        for lane in lanes
        for name in names
        for at in lane.places(name)
    }


def limit_of_lane(lane: Lane, size: int | None, age_s: float | None) -> tuple[float, float]:
    """Return how many bytes, and for how many ms, a lane's part of a topic may hold messages."""
    size_max = math.inf if size is None else size / lane.lanes
    return size_max, math.inf if age_s is None else age_s * 1000


@dataclass(slots=True)
class Backlog:
    """What waits in one partition."""

    _samples: deque[tuple[int, int, int]] = field(default_factory=deque)
    _topic_id: bytes = b""
    _before: int = 0  # bytes written to what is no more

    def follow_topic(self, topic_id: bytes, written: int) -> None:
        """Start over if the partition is of another topic than at the last call.

        If the new topic has outgrown the former one, its end does not show the change.
        """
        if self._topic_id not in (b"", topic_id):
            self._begin_again(written)
        self._topic_id = topic_id

    def _begin_again(self, written: int) -> None:
        self._samples.clear()
        self._before = written

    def note(self, end: int, written: int, now_ms: int) -> None:
        """Note where the log ends now, if it has grown; see `look`.

        If it has lost its end, earlier notes are about records that nobody can read.
        """
        samples = self._samples
        if samples and end < samples[-1][1]:
            self._begin_again(written)
        if not samples or samples[-1][1] != end:
            samples.append((now_ms, end, written))
        if len(samples) > SAMPLES_MAX:
            self._thin_out()

    def look(self, end: int, position: int, written: int, now_ms: int) -> tuple[int, int]:
        """Return how many bytes wait, and for how many ms the oldest of them has waited.

        Args:
            end: Offset after the last entry of the partition.
            position: Next offset that its reader wants.
            written: Bytes written to it so far.
            now_ms: The present moment.
        """
        self.note(end, written, now_ms)
        samples = self._samples
        # The last entry below an end is a transaction marker: no position goes past it.
        while len(samples) > 1 and samples[1][1] - 1 <= position:
            samples.popleft()
        first_ms, first_end, first_written = samples[0]
        if first_end - 1 > position:
            return written - self._before, now_ms - first_ms  # some is older than this count
        if len(samples) == 1:
            return 0, 0
        # Between two moments, assume as much was read as the position suggests.
        next_ms, next_end, next_written = samples[1]
        share = (position - first_end) / (next_end - first_end) if position > first_end else 0
        read = first_written + int((next_written - first_written) * share)
        return written - read, now_ms - next_ms

    def _thin_out(self) -> None:
        """Forget every other moment, but not the oldest two and the newest: ages stay exact."""
        first, *middle, last = self._samples
        self._samples = deque([first, *middle[::2], last])

    def beyond(self, size: float, age_ms: float, written: int, now_ms: int) -> int:
        """Return the offset below which the oldest messages are too many or too old.

        Args:
            size: Bytes that may stay.
            age_ms: How old they may be.
            written: Bytes written so far.
            now_ms: The present moment.
        """
        samples = list(self._samples)
        for index, (_, end, before) in enumerate(samples):
            next_ms = samples[index + 1][0] if samples[index + 1 :] else now_ms
            if written - before <= size and now_ms - next_ms <= age_ms:
                return end
        return samples[-1][1] if samples else 0


@dataclass(slots=True)
class Counts:
    """What waits in the partitions that lanes write; a lane that is taken again counts from 0."""

    _known: dict[TopicPartition, tuple[Lane, Backlog]] = field(default_factory=dict)

    def has(self, lane: Lane, at: TopicPartition) -> bool:
        """Return whether what this lane writes there is counted."""
        return at in self._known and self._known[at][0] is lane

    def of(self, lane: Lane, at: TopicPartition) -> Backlog:
        """Return the count of a partition; begin it if there is none."""
        if not self.has(lane, at):
            self._known[at] = lane, Backlog()
        return self._known[at][1]
