"""Which targets a lane leaves out: those that refuse, and those that can take nothing. K20."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from mesh.lane.closed import OPEN, Closed
from mesh.lane.held import endpoint_of, hold, link_of
from mesh.lane.lane import Lane

HOLD_AFTER, HOLD_WITHIN_MS = 3, 60_000
"""A target that refused a lane's records so often within such a time is held."""


@dataclass(slots=True)
class Refusals:
    """What is known of targets that cannot be written.

    Attributes:
        topics: Those that refused records: perhaps somebody deleted them.
        closed: Where nothing may be written now.
    """

    topics: dict[str, None] = field(default_factory=dict)
    closed: Closed = OPEN
    _times: dict[tuple[int, str], list[int]] = field(default_factory=dict)

    def note(self, lane: Lane, topics: Collection[str], now_ms: int) -> None:
        """Take note of what refused a lane's records."""
        self.topics.update(dict.fromkeys(topics))
        if lane.names.progress(lane.node) in topics:
            return  # where nothing can be written nothing is gained by leaving a target out
        for topic in topics:
            times = self._times.setdefault((lane.number, topic), [])
            times.append(now_ms)
            del times[:-HOLD_AFTER]

    def hold(self, lane: Lane, now_ms: int) -> None:
        """Have a lane leave out the targets that have refused several times of late."""
        for (number, topic), times in list(self._times.items()):
            is_stuck = len(times) >= HOLD_AFTER and now_ms - times[0] <= HOLD_WITHIN_MS
            if number == lane.number and is_stuck and _is_target(lane, topic):
                del self._times[number, topic]
                if not lane.leaves_out(topic):
                    hold(lane, topic, now_ms)

    def hold_closed(self, lane: Lane, now_ms: int) -> None:
        """Have a lane leave out the targets that take nothing now."""
        lane.closed = self.closed
        lanes = lane.topology.nodes[lane.node].lanes
        for topic in self.closed.of_lane(lane.number, lanes):
            if not lane.leaves_out(topic) and _is_target(lane, topic):
                hold(lane, topic, now_ms)


def _is_target(lane: Lane, topic: str) -> bool:
    return bool(endpoint_of(lane, topic) or link_of(lane, topic))
