"""How much members of queues could consume, so that others send them messages. DESIGN 6."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueueDemand:
    """How many messages of a queue a node could take in for its consumers.

    Each newer one replaces the earlier ones; each mover may use up each number once.

    Attributes:
        queue: Name of the queue there.
        node: The member.
        epoch, number: Order of its reports: the incarnation of the node, and its beat.
        room: Messages; 0 if nobody consumes there, or enough waits.
    """

    queue: str
    node: str
    epoch: int
    number: int
    room: int

    @property
    def version(self) -> tuple[int, int]:
        """Order among those of one member."""
        return self.epoch, self.number
