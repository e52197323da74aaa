"""Where a lane begins to read a source, and what is told of one that it reads no further. R6."""

from __future__ import annotations

from mesh.lane.lane import Lane
from mesh.model.control import Stop, StopReason
from mesh.model.frames import NONE_OFFSET, MessageClass
from mesh.transport.port import TopicPartition


def begin_of(lane: Lane, at: TopicPartition) -> int:
    """Return where a lane begins to read.

    What is deleted before it was ever read is lost like all else: a guaranteed source that begins
    at the first offset there is would pass over it in silence. Spec: R6.
    """
    position = lane.position(at)
    is_guaranteed = lane.sources[at].message_class is MessageClass.GUARANTEED
    return max(0, position) if is_guaranteed else position


def reached(lane: Lane, at: TopicPartition) -> int:
    """Return how far a source is read for certain; behind where its log was cut off nothing is."""
    position, stop = lane.committed_position(at), lane.positions.stopped.get(at)
    return position if stop is None else min(position, stop.first)


def stop_of(
    at: TopicPartition, topic_id: bytes, reason: StopReason, first: int, end: int = NONE_OFFSET
) -> Stop:
    """Return the stop of a source at `first`, for this reason; its log goes on at `end`."""
    return Stop(at.topic, at.partition, topic_id, reason, first, end)
