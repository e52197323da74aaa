"""What becomes of direct sources when a lane changes hands, or copies are refused. Spec: K18.

Who gives it up leaves exact positions. Who takes it after a crash does not know which of the copies
that its former owner had reserved went out: it reads on behind them, and counts what may be lost.
"""

from __future__ import annotations

from collections.abc import Mapping

from mesh.lane.lane import Lane
from mesh.model.reasons import DropReason
from mesh.transport.port import TopicPartition


def give_back(lane: Lane, now_ms: int) -> None:
    """Reserve nothing in the next commit, the lane's last here: positions become exact.

    Not while another commit is under way: what the lane has reserved is known at its end.
    """
    lane.reserve_no_more()
    for at in dict.fromkeys([*lane.direct.sources(), *lane.progress.unwritten]):
        tell_position(lane, at, lane.progress.next[at], now_ms)


def go_on_behind(lane: Lane, handed_on: Mapping[TopicPartition, int], now_ms: int) -> None:
    """Read direct sources from where the copies of the lane's former life ended; tell that.

    What a commit with an unknown outcome has delivered after all does not come again: its
    copies to others are lost, as at a takeover.

    Args:
        lane: Taken again, just now.
        handed_on: How far copies went, where nobody had the lane in between.
        now_ms: The present moment.
    """
    for at, position in handed_on.items():
        committed = lane.progress.next.get(at, position)
        lane.direct.go_on_behind(at, position, committed)
        if position > committed:
            tell_position(lane, at, position, now_ms)  # whoever drains this link waits for it


def tell_position(lane: Lane, at: TopicPartition, reached: int, now_ms: int) -> None:
    """Record in the next commit how far a source was read, and reserve nothing beyond."""
    batch, progress = lane.open(now_ms), lane.progress
    batch.begins.setdefault(at, progress.next.get(at, reached))
    behind = lane.direct.unwritten.below(at, reached, batch.unwritten)
    lane.note(batch, progress.source_at(at, reached, behind=behind))


def count_unwritten(lane: Lane, now_ms: int) -> None:
    """Count what may be lost because a former owner had not written it; once.

    What that owner had reserved stays so: it may use it still.
    """
    progress = lane.progress
    for at, offsets in lane.direct.take_doubtful().items():
        if not offsets or at not in progress.next:
            continue
        lane.open(now_ms).count_dropped(DropReason.UNWRITTEN, at, offsets)
        reached = progress.next[at]
        ahead = max(0, progress.reserved.get(at, reached) - reached)
        lane.note(lane.open(now_ms), progress.source_at(at, reached, ahead))


def count_refused(lane: Lane, now_ms: int) -> None:
    """Count what may be lost because brokers did not take all direct copies; once. Spec: DESIGN 6.

    The client library tells how many records those are, not which.
    """
    progress = lane.progress
    for at, offsets in lane.direct.unwritten.count_as_lost(lane.position).items():
        batch = lane.open(now_ms)
        batch.count_dropped(DropReason.UNWRITTEN, at, offsets)
        if (reached := progress.next.get(at)) is None:
            continue  # its topic is another one since, and nothing of it is committed
        # Else whoever takes the lane would count them again.
        ahead = max(0, progress.reserved.get(at, reached) - reached)
        behind = lane.direct.unwritten.below(at, reached, batch.unwritten)
        lane.note(batch, progress.source_at(at, reached, ahead, behind))


def skip(lane: Lane, at: TopicPartition, reason: DropReason, to: int, now_ms: int) -> None:
    """Go on at `to` with a direct source if it stands before that; count what is skipped."""
    position = lane.position(at)
    if to <= position:
        return
    batch = lane.open(now_ms)
    batch.count_dropped(reason, at, to - position)
    topic_id, generation = lane.progress.topic_ids[at], lane.generation(at)
    batch.read(at, topic_id, generation, position, to - 1, 0, records=0)
    lane.log.warning(
        "direct.skipped",
        topic=at.topic,
        partition=at.partition,
        reason=reason,
        first=position,
        next=to,
    )
