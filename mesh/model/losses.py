"""What is announced as lost. Spec: DESIGN 6."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """An announcement that guaranteed messages are lost, at the place where they would be.

    Attributes:
        node: The node that announces it.
        topic, topic_id, partition, generation: Where they were: an ingress, or an outbox.
        first, last: Their offsets there; `last` is None if it cannot be known.
        reason: retention, truncated or recreated.
        path: Nodes that passed the announcement on.

    Spec: DESIGN 6.
    """

    node: str
    topic: str
    topic_id: str
    partition: int
    generation: int
    first: int
    last: int | None
    reason: str
    path: tuple[str, ...]

    def __str__(self) -> str:
        """Return one line for people."""
        end = "an unknown end" if self.last is None else self.last
        return f"lost ({self.reason}): {self.topic}[{self.partition}] {self.first} to {end}"
