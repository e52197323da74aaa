"""What a node does not read although it could: messages wait where they are meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mesh.model.reasons import NotRead
from mesh.model.topology import LinkLimit
from mesh.transport.port import TopicPartition
from mesh.wire.keys import PauseKey


@dataclass(slots=True)
class Stillness:
    """Why sources stand still.

    Attributes:
        holding: Nothing is taken of clients: a change of the topology is under way.
        cut: Neighbours of which a drill lets nothing through.
        closed: Neighbours whose link is disabled, or not proven yet since it was enabled.
        paused: Links, or partitions of them, that an operator has paused.
        refusing: Lanes that take no guaranteed messages of clients: a link is full.
        resting: Until when a source rests, in ms, because its link has a rate.
        filters: Subjects of which operators want nothing to be taken of clients.
        waiting: Parts of the own ingress whose next message has such a subject.
        committing: Lanes whose commit takes long.
        meeting: Lanes that wait while a target is written that is to be theirs again.
        identifying: Sources of which it is not known whose the first records are.
    """

    holding: bool = False
    cut: Sequence[str] = ()
    closed: frozenset[str] = frozenset()
    paused: frozenset[PauseKey] = frozenset()
    refusing: frozenset[int] = frozenset()
    resting: dict[TopicPartition, int] = field(default_factory=dict)
    filters: frozenset[str] = frozenset()
    waiting: dict[TopicPartition, None] = field(default_factory=dict)
    committing: frozenset[int] = frozenset()
    meeting: dict[int, None] = field(default_factory=dict)
    identifying: dict[TopicPartition, None] = field(default_factory=dict)

    def why(self, at: TopicPartition, lane: int, *, is_guaranteed: bool) -> NotRead | None:
        """Return why nothing is read of a part of the own ingress just now, or None.

        Args:
            at: The part.
            lane: Whose it is.
            is_guaranteed: Its class.
        """
        if (reason := self._of_lane(lane, at)) is not None:
            return reason
        if self.holding:
            return NotRead.HOLDING
        if is_guaranteed and lane in self.refusing:
            return NotRead.FULL
        return NotRead.SUBJECT if at in self.waiting else None

    def why_of_link(
        self, node: str, neighbour: str, at: TopicPartition, lane: int, now_ms: int
    ) -> NotRead | None:
        """Return why nothing is read of a part of a neighbour's outbox just now, or None."""
        if (reason := self._of_lane(lane, at)) is not None:
            return reason
        if neighbour in self.closed:
            return NotRead.LINK
        if neighbour in self.cut:
            return NotRead.CUT
        keys = {PauseKey(node, neighbour), PauseKey(node, neighbour, at.partition)}
        if not keys.isdisjoint(self.paused):
            return NotRead.PAUSED
        return NotRead.RATE if self.resting.get(at, now_ms) > now_ms else None

    def _of_lane(self, lane: int, at: TopicPartition) -> NotRead | None:
        if lane in self.committing:
            return NotRead.COMMITTING
        if lane in self.meeting:
            return NotRead.MEETING
        return NotRead.IDENTITY if at in self.identifying else None

    def wake(self, now_ms: int) -> bool:
        """Forget who has rested long enough; say whether there was one."""
        rested = [at for at, until in self.resting.items() if until <= now_ms]
        for at in rested:
            del self.resting[at]
        return bool(rested)


@dataclass(slots=True)
class Bucket:
    """So many bytes a second, and at most one second's worth at once.

    Attributes:
        rate: Bytes per second.
    """

    rate: float
    _level: float = field(init=False)
    _filled_ms: int | None = None

    def __post_init__(self) -> None:
        """Begin full."""
        self._level = self.rate

    def take(self, size: int, now_ms: int) -> int:
        """Take what has been read already; return how many ms to rest before the next."""
        elapsed_ms = now_ms - (self._filled_ms if self._filled_ms is not None else now_ms)
        self._filled_ms = now_ms
        self._level = min(self.rate, self._level + self.rate * elapsed_ms / 1000) - size
        return 0 if self._level >= 0 else int(-self._level * 1000 / self.rate) + 1


def buckets_of(
    limits: Mapping[frozenset[str], LinkLimit], node: str, neighbours: Sequence[str], lanes: int
) -> Mapping[str, Bucket]:
    """Return a lane's part of the rate of each link that has one, by neighbour."""
    found: dict[str, Bucket] = {}
    for neighbour in neighbours:
        limit = limits.get(frozenset((node, neighbour)))
        if limit is not None and limit.bytes_per_s is not None:
            found[neighbour] = Bucket(limit.bytes_per_s / lanes)
    return found
