"""What a node deliberately does not read just now: messages wait where they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mesh.model.reasons import NotRead
from mesh.transport.port import TopicPartition
from mesh.wire.keys import PauseKey


@dataclass(slots=True)
class ReadGate:
    """The reasons why a source is not read just now.

    Attributes:
        holding: Nothing is taken from clients: a change of the topology is under way.
        isolated: Neighbours that an injected fault cuts off.
        shut: Neighbours whose link is disabled, or not proven yet since it was enabled.
        paused: Links, or partitions of them, that an operator has paused.
        refusing: Lanes that take no guaranteed messages from clients: a link is full.
        resting: Until when a source rests, in ms, because its link has a rate limit.
        filters: Subjects that operators do not want to be taken from clients.
        waiting: Parts of the own ingress whose next message has such a subject.
        committing: Lanes whose commit takes long.
        meeting: Lanes that wait while a catch-up finishes a target that becomes theirs again.
        identifying: Sources whose first records may not be their own.
    """

    holding: bool = False
    isolated: Sequence[str] = ()
    shut: frozenset[str] = frozenset()
    paused: frozenset[PauseKey] = frozenset()
    refusing: frozenset[int] = frozenset()
    resting: dict[TopicPartition, int] = field(default_factory=dict)
    filters: frozenset[str] = frozenset()
    waiting: dict[TopicPartition, None] = field(default_factory=dict)
    committing: frozenset[int] = frozenset()
    meeting: dict[int, None] = field(default_factory=dict)
    identifying: dict[TopicPartition, None] = field(default_factory=dict)

    def why(self, at: TopicPartition, lane: int, *, is_guaranteed: bool) -> NotRead | None:
        """Return why a part of the own ingress is not read just now, or None.

        Args:
            at: The part.
            lane: Whose it is.
            is_guaranteed: Its class.
        """
        if (reason := self._of_lane(lane)) is not None:
            return reason
        if self.holding:
            return NotRead.HOLDING
        if is_guaranteed and lane in self.refusing:
            return NotRead.FULL
        if at in self.waiting:
            return NotRead.SUBJECT
        return NotRead.IDENTITY if at in self.identifying else None

    def why_of_link(
        self, node: str, neighbour: str, at: TopicPartition, lane: int, now_ms: int
    ) -> NotRead | None:
        """Return why a part of a neighbour's outbox is not read just now, or None."""
        if (reason := self._of_lane(lane)) is not None:
            return reason
        if neighbour in self.shut:
            return NotRead.LINK
        if neighbour in self.isolated:
            return NotRead.CUT
        keys = {PauseKey(node, neighbour), PauseKey(node, neighbour, at.partition)}
        if not keys.isdisjoint(self.paused):
            return NotRead.PAUSED
        if self.resting.get(at, now_ms) > now_ms:
            return NotRead.RATE
        return NotRead.IDENTITY if at in self.identifying else None

    def _of_lane(self, lane: int) -> NotRead | None:
        if lane in self.committing:
            return NotRead.COMMITTING
        return NotRead.MEETING if lane in self.meeting else None

    def wake(self, now_ms: int) -> bool:
        """Forget sources that have rested long enough; return whether there were any."""
        rested = [at for at, until in self.resting.items() if until <= now_ms]
        for at in rested:
            del self.resting[at]
        return bool(rested)
