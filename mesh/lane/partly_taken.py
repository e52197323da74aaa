"""Frames that a lane does not take whole: marked for whoever reads them again. Spec: K11, K20."""

from __future__ import annotations

from mesh.lane.batch import Batch
from mesh.lane.lane import Lane
from mesh.lane.partly_taken_marks import NOT_TAKEN, PartlyTakenMarks
from mesh.lane.run import Run
from mesh.model.facts import partly_taken_key
from mesh.model.frames import MessageClass
from mesh.transport.port import TopicPartition


def is_skipped(run: Run, offset: int) -> bool:
    """Return whether a catch-up passes over a frame: nothing of it was taken. Spec: K20."""
    source = run.source
    return run.lane.progress.taken_after(source.at, source.topic_id, offset) == NOT_TAKEN


def note_partly_taken(run: Run, offset: int, after: int = NOT_TAKEN) -> None:
    """Record in the next commit that a frame was not taken whole. Spec: K20.

    Args:
        run: What it was read of: an outbox partition.
        offset: Of the frame there.
        after: Messages with origin offsets above this were taken; -1: none.
    """
    lane, source = run.lane, run.source
    is_kept = source.link is not None and source.message_class is MessageClass.GUARANTEED
    if is_kept and not lane.is_catch_up:
        frames = lane.progress.partly_taken.get(source.at, PartlyTakenMarks())
        lane.note(run.batch, frames.marked(source.at, source.topic_id, offset, after))


def forget_partly_taken(
    lane: Lane, at: TopicPartition, topic_id: bytes, start: int, now_ms: int
) -> None:
    """Remove in the next commit the marks of frames that an outbox has no longer."""
    frames = lane.progress.partly_taken.get(at, PartlyTakenMarks())
    for block in [*frames.forget(topic_id, start)]:
        lane.open(now_ms).forget(partly_taken_key(at, block))


def cut_off_partly_taken(lane: Lane, batch: Batch, at: TopicPartition, end: int) -> None:
    """Remove in the next commit the marks of frames whose offsets are given out again."""
    for marks in [*lane.progress.partly_taken.get(at, PartlyTakenMarks()).cut_off(at, end)]:
        lane.note(batch, marks)
