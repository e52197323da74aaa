"""Losses that an operator has accepted: announced, and the lane goes on behind them.

A consent is good for what it names. A log that has lost more by then stops its source once more.
Spec: R6, DESIGN 6.
"""

from __future__ import annotations

from dataclasses import replace

from mesh.core.truncations import parts
from mesh.errors import InvariantError
from mesh.lane.cuts import cut_off_eras
from mesh.lane.faults import lift_stop
from mesh.lane.lane import Lane
from mesh.lane.messages.gaps import announce
from mesh.lane.partly_taken import cut_off_partly_taken, note_partly_taken
from mesh.lane.resuming import stop_of, stop_source
from mesh.lane.run import Run
from mesh.lane.sources import Source, SourceTopic
from mesh.lane.truncations import accepted_truncations, keep_truncation
from mesh.model.control import Stop, StopReason
from mesh.model.facts import Truncation
from mesh.model.frames import NONE_OFFSET, position_in_chain
from mesh.model.reasons import DropReason
from mesh.transport.port import TopicPartition


def known_until(stop: Stop) -> int:
    """Return up to which offset a stopped source has to be what it was when it stopped.

    Behind a log that was cut off, or before one that begins later, nothing was read; of a record of
    an unknown version it is known by which leader it was written.
    """
    return stop.next if stop.reason == StopReason.VERSION else stop.first


def accept_loss(
    lane: Lane,
    topic: SourceTopic,
    topic_id: bytes,
    stop: Stop,
    bounds: tuple[int, int | None],
    now_ms: int,
) -> None:
    """Announce what an operator accepted as lost, and go on behind it. Spec: R6, DESIGN 6.

    If by now more is lost than was accepted, that is a stop of its own.

    Args:
        lane: Whose source it is.
        topic: What is read.
        topic_id: Its identity by now.
        stop: What was accepted.
        bounds: Where the log of the partition begins by now, and up to where it is known to be the
            one of which the stop speaks.
        now_ms: The present moment.
    """
    start, end = bounds
    at, reason = TopicPartition(stop.topic, stop.partition), StopReason(stop.reason)
    if reason is not StopReason.RECREATED and topic_id != stop.topic_id:
        # All else in the former topic is lost as well, and the new one begins at its start.
        stop_source(lane, stop_of(at, stop.topic_id, StopReason.RECREATED, stop.first), now_ms)
        return
    if reason is StopReason.RETENTION and start > stop.next:
        # More was deleted meanwhile: nobody has accepted that.
        stop_source(lane, replace(stop, next=start), now_ms)
        return
    if reason is not StopReason.RECREATED and end is not None and end < known_until(stop):
        _lost_more(lane, stop, end, now_ms)
        return
    generation = lane.progress.generations.get(at, 0)
    source = Source(at, stop.topic_id, topic.message_class, topic.link, generation)
    position = _goes_on_at(stop, reason)
    batch = lane.open(now_ms)
    if reason is StopReason.TRUNCATED:
        generation += 1
    offset = stop.first + 1 if reason is StopReason.RECREATED else position
    goes_on = position_in_chain(generation, offset)
    run = Run(lane, batch, source)
    _announce_each(run, stop, goes_on)
    if reason is StopReason.VERSION:
        note_partly_taken(run, stop.first)
        lane.broken.expect_hole(at)
    if reason is StopReason.TRUNCATED:
        keep_truncation(run, Truncation(generation, position, stop.next))
        cut_off_partly_taken(lane, batch, at, position)
    if reason is StopReason.RECREATED:
        generation = 0
    if reason in (StopReason.TRUNCATED, StopReason.RECREATED):
        cut_off_eras(lane, batch, at, position)
    epoch = None if reason is StopReason.RECREATED else lane.leader_epoch(at)
    batch.read(at, topic_id, generation, position, position - 1, 0, records=0, leader_epoch=epoch)
    batch.count_dropped(DropReason.GAP_ACCEPTED, at, max(1, stop.next - stop.first))
    lift_stop(lane, stop, now_ms)
    lane.log.warning("source.resumed", lane=lane.number, reason=stop.reason, range=stop.range)


def _announce_each(run: Run, stop: Stop, goes_on: int) -> None:
    """Announce what is lost of each generation: what was read under two has names of both. K9."""
    lost = [(run.source.generation, stop.first, stop.next)]
    if stop.next != NONE_OFFSET:
        lost = [*parts(accepted_truncations(run.lane, run.source), stop.first, stop.next)]
    for generation, first, until in lost:
        of = replace(run, source=replace(run.source, generation=generation))
        announce(of, replace(stop, first=first, next=until), goes_on)


def _lost_more(lane: Lane, stop: Stop, end: int, now_ms: int) -> None:
    """Take that a log has lost its end, once more, while its source was stopped.

    Nobody has accepted that: new records stand from there on. Where only a record is lost that
    nobody could read, nothing is to be accepted.
    """
    at = TopicPartition(stop.topic, stop.partition)
    position = max(0, lane.position(at))
    if end >= position:
        lift_stop(lane, stop, now_ms)
    elif stop.reason == StopReason.TRUNCATED:
        stop_source(lane, replace(stop, first=end), now_ms)
    else:
        stop_source(lane, stop_of(at, stop.topic_id, StopReason.TRUNCATED, end, position), now_ms)


def _goes_on_at(stop: Stop, reason: StopReason) -> int:
    match reason:
        case StopReason.RETENTION | StopReason.VERSION:
            return stop.next
        case StopReason.TRUNCATED:
            return stop.first
        case StopReason.RECREATED:
            return 0  # what is deleted there as well is a loss of its own
        case StopReason.UNREADABLE:
            raise InvariantError("a lane whose own facts are hidden reads no source")
