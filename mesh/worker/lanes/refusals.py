"""The targets that a lane leaves out: those that refuse, and those that are unwritable. K20."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from mesh.lane.lane import Lane
from mesh.lane.target_holds import endpoint_of, hold, link_of
from mesh.lane.unwritable import ALL_WRITABLE, Unwritable

HOLD_AFTER, HOLD_WITHIN_MS = 3, 60_000
"""A target that refuses a lane's records this often within this time is held."""


@dataclass(slots=True)
class Refusals:
    """What is known of targets that cannot be written.

    Attributes:
        topics: Those that refused records: perhaps somebody deleted them.
        unwritable: Where nothing can be written now.
    """

    topics: dict[str, None] = field(default_factory=dict)
    unwritable: Unwritable = ALL_WRITABLE
    _times: dict[tuple[int, str], list[int]] = field(default_factory=dict)

    def note(self, lane: Lane, topics: Collection[str], now_ms: int) -> None:
        """Record what refused a lane's records."""
        self.topics.update(dict.fromkeys(topics))
        if lane.names.progress(lane.node) in topics:
            return  # with all unwritable nothing is gained by leaving one out
        for topic in topics:
            times = self._times.setdefault((lane.number, topic), [])
            times.append(now_ms)
            del times[:-HOLD_AFTER]

    def hold(self, lane: Lane, now_ms: int) -> None:
        """Have a lane leave out the targets that have refused several times recently."""
        for (number, topic), times in list(self._times.items()):
            is_stuck = len(times) >= HOLD_AFTER and now_ms - times[0] <= HOLD_WITHIN_MS
            if number == lane.number and is_stuck and _is_target(lane, topic):
                del self._times[number, topic]
                if not lane.holds_target(topic):
                    hold(lane, topic, now_ms)

    def hold_unwritable(self, lane: Lane, now_ms: int) -> None:
        """Have a lane leave out the targets that cannot be written now."""
        lane.write_nothing_to(self.unwritable)
        for topic in self.unwritable.of_lane(lane.number, lane.lanes):
            if not lane.holds_target(topic) and _is_target(lane, topic):
                hold(lane, topic, now_ms)


def _is_target(lane: Lane, topic: str) -> bool:
    return bool(endpoint_of(lane, topic) or link_of(lane, topic))
