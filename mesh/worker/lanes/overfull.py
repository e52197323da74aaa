"""What an endpoint partition holds too much, as far as it is to be displaced. Spec: R14."""

from dataclasses import dataclass

from mesh.lane.lane import Lane
from mesh.transport.port import TopicPartition


@dataclass(frozen=True, slots=True)
class Overfull:
    """What is to be displaced.

    Attributes:
        lane: Whose endpoint partition it is.
        endpoint, at: Where.
        first: Offset of the oldest message that is not read.
        until: Offset below which they go; 0: see only what a predecessor has left to be deleted.
        reason: Why.
        topic_id: Of what was looked at; empty where a predecessor's is to be found.
    """

    lane: Lane
    endpoint: str
    at: TopicPartition
    first: int
    until: int
    reason: str
    topic_id: bytes
