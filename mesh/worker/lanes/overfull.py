"""The surplus of an endpoint partition that is to be displaced. Spec: R14."""

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
        until: Offset below which they go; 0: only finish what a predecessor left to be deleted.
        reason: Why.
        topic_id: Of the topic that was looked at; empty to search for a predecessor's leftovers.
    """

    lane: Lane
    endpoint: str
    at: TopicPartition
    first: int
    until: int
    reason: str
    topic_id: bytes
