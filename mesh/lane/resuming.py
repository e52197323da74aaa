"""Where a lane goes on in a log: at its position, behind what is lost, or not at all.

A log may have been recreated, have lost its end, or have begun later since it was read last. Of a
guaranteed source that is a loss: it stops, and goes on when an operator has accepted the loss. Of a
direct one it is counted. Spec: K18, K-2, R6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mesh.lane.batch import RESERVED_MS
from mesh.lane.cuts import forget_eras
from mesh.lane.faults import keep_stop
from mesh.lane.handover import skip
from mesh.lane.lane import Lane
from mesh.lane.messages.gaps import announce
from mesh.lane.partly_taken import forget_partly_taken
from mesh.lane.run import Run
from mesh.lane.sources import Source, SourceTopic
from mesh.model.control import Stop, StopReason
from mesh.model.frames import NONE_OFFSET, MessageClass, position_in_chain
from mesh.model.reasons import DropReason
from mesh.transport.port import TopicPartition

Bounds = Mapping[TopicPartition, tuple[int | None, int | None]]
"""Where logs begin and end, as far as there are any."""


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
    position, stop = lane.committed_position(at), lane.progress.stopped.get(at)
    return position if stop is None else min(position, stop.first)


def stop_of(
    at: TopicPartition, topic_id: bytes, reason: StopReason, first: int, end: int = NONE_OFFSET
) -> Stop:
    """Return the stop of a source at `first`, for this reason; its log goes on at `end`."""
    return Stop(at.topic, at.partition, topic_id, reason, first, end)


def is_reserved(lane: Lane, at: TopicPartition, now_ms: int) -> bool:
    """Return whether a former owner may still hand on of a direct source what it had reserved."""
    return now_ms - lane.taken_ms <= RESERVED_MS and at in lane.direct.inherited


def go_on(
    lane: Lane, topic: SourceTopic, topic_id: bytes, bounds: Bounds, now_ms: int
) -> Sequence[TopicPartition]:
    """Return what a lane may read of a topic, from its positions on; of the rest stops are kept.

    Args:
        lane: Whose positions they are.
        topic: What is read.
        topic_id: Its identity by now.
        bounds: Where the logs of those of its partitions begin and end that are not read yet.
        now_ms: The present moment.
    """
    places = [at for at in bounds if _is_same(lane, topic, topic_id, at, now_ms)]
    if topic.message_class is MessageClass.DIRECT:
        _resume_direct(lane, topic, bounds, places, now_ms)
        return places
    return _inside(lane, topic_id, bounds, places, now_ms)


def stop_source(lane: Lane, stop: Stop, now_ms: int) -> None:
    """Read a source no further until an operator has accepted what it lost."""
    at = TopicPartition(stop.topic, stop.partition)
    stop = replace(stop, generation=lane.progress.generations.get(at, 0))
    lane.log.error("source.stopped", lane=lane.number, reason=stop.reason, range=stop.range)
    keep_stop(lane, stop, now_ms)


def note_leader(lane: Lane, source: Source, leader_epoch: int | None, now_ms: int) -> None:
    """Record in the next commit by which leader the record was written that is not read. R6."""
    if source.message_class is MessageClass.DIRECT:
        return
    at, topic_id, generation = source.at, source.topic_id, lane.generation(source.at)
    first = max(0, lane.position(at))
    batch = lane.open(now_ms)
    batch.read(at, topic_id, generation, first, first - 1, 0, records=0, leader_epoch=leader_epoch)


def _is_same(
    lane: Lane, topic: SourceTopic, topic_id: bytes, at: TopicPartition, now_ms: int
) -> bool:
    """Return whether a position still belongs to the topic; else keep a stop."""
    progress = lane.progress
    former = progress.topic_ids.get(at, topic_id)
    if former == topic_id or lane.position(at) < 0:
        return True  # what was never read lacks nothing
    if topic.message_class is MessageClass.GUARANTEED and at not in progress.unlinked:
        first = max(0, lane.position(at))
        stop_source(lane, stop_of(at, former, StopReason.RECREATED, first), now_ms)
        return False
    lane.log.warning("source.recreated", topic=at.topic, partition=at.partition)
    lane.start_over(at)
    return True


def _inside(
    lane: Lane,
    topic_id: bytes,
    bounds: Bounds,
    places: Sequence[TopicPartition],
    now_ms: int,
) -> Sequence[TopicPartition]:
    """Return the places whose positions are inside their logs; stops are kept of others."""
    stops: dict[TopicPartition, Stop] = {}
    for at in places:
        # What was never read begins at 0, also if it is not there any more.
        known_id = lane.progress.topic_ids.get(at, topic_id)
        position = max(0, lane.position(at))
        known_start, known_end = bounds[at]
        start = 0 if known_start is None else known_start
        end = position if known_end is None else known_end
        forget_partly_taken(lane, at, topic_id, start, now_ms)
        forget_eras(lane, at, start, now_ms)
        if end < position:
            stops[at] = stop_of(at, known_id, StopReason.TRUNCATED, end, position)
        elif start > position:
            stops[at] = stop_of(at, known_id, StopReason.RETENTION, position, start)
    for stop in stops.values():
        stop_source(lane, stop, now_ms)
    return [at for at in places if at not in stops]


def _resume_direct(
    lane: Lane, topic: SourceTopic, bounds: Bounds, places: Sequence[TopicPartition], now_ms: int
) -> None:
    """Go on behind all that may have been handed on.

    A former owner used what it had reserved for at most `RESERVED_MS` after its last commit.
    What was in the log then may have gone out without a commit, and is skipped as far as it
    was reserved; what came later has not gone out.
    """
    for at in [one for one in places if lane.position(one) >= 0]:
        start, end = bounds[at][0] or 0, bounds[at][1] or 0
        if end < lane.position(at):
            _turn_back(lane, topic, at, end, now_ms)
        reached = min(lane.direct.inherited.get(at, 0), end)
        skip(lane, at, DropReason.TAKEOVER, reached, now_ms)
        skip(lane, at, DropReason.RETENTION, start, now_ms)
        lane.direct.passed_inherited(at)


def _turn_back(lane: Lane, topic: SourceTopic, at: TopicPartition, end: int, now_ms: int) -> None:
    """Go on at the end of a truncated log: its offsets come again, as a new generation.

    Who reads the copies must know, or it would take them for repeats. Spec: K9, K11.
    """
    lane.log.warning("direct.truncated", topic=at.topic, partition=at.partition, end=end)
    batch, topic_id = lane.open(now_ms), lane.progress.topic_ids[at]
    generation = lane.generation(at)
    source = Source(at, topic_id, MessageClass.DIRECT, topic.link, generation)
    stop = stop_of(at, topic_id, StopReason.TRUNCATED, end, lane.position(at))
    goes_on = position_in_chain(generation + 1, end)
    announce(Run(lane, batch, source), stop, goes_on)
    lane.direct.passed_inherited(at)
    batch.read(at, topic_id, generation + 1, end, end - 1, 0, records=0)
