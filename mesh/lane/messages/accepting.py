"""What of a neighbour's frames is accepted: the chain says it, also of what nobody can read.

Spec: K11, K18, K20.
"""

from __future__ import annotations

from mesh.core.chain import Verdict, judge
from mesh.core.local_links import LocalLink
from mesh.lane.batch import Batch
from mesh.lane.faults import ask_again, ask_repair, end_repair, repair_comes, repair_failed
from mesh.lane.lane import Lane
from mesh.lane.messages.gaps import announce_unreadable
from mesh.lane.part_frames import NOT_TAKEN
from mesh.lane.sources import Source
from mesh.model.facts import Accepted
from mesh.model.frames import (
    NONE_OFFSET,
    FrameFlags,
    FrameKind,
    Hop,
    MessageClass,
    generation_and_offset,
)
from mesh.model.reasons import DropReason
from mesh.transport.port import Record
from mesh.wire.frames import Peeked, peek


def accepted_after(
    lane: Lane, batch: Batch, source: Source, offset: int, peeked: Peeked
) -> int | None:
    """Return the origin offset after which a frame's messages are accepted (-1: all), or None.

    Who reads a second time, for one target, begins in the middle of chains: it takes what the lane
    took. Spec: K11, K20.
    """
    if lane.narrowed is not None:  # it is a second reading; asked for each frame
        marked = lane.positions.taken_after(source.at, source.topic_id, offset)
        return NONE_OFFSET if marked is None else marked
    after = _judge(lane, batch, source, offset, peeked)
    if after != NONE_OFFSET:
        lane.note_partly_taken(batch, source, offset, NOT_TAKEN if after is None else after)
    return after


def pass_over(lane: Lane, batch: Batch, source: Source, link: LocalLink, record: Record) -> int:
    """Have the chain go on behind a frame that is put aside; return how many messages it has."""
    note_unreadable(lane, batch, source, record.offset())
    try:
        peeked = peek(record.key() or b"")
        if peeked.hop.path[-1] == link.neighbour:
            _judge(lane, batch, source, record.offset(), peeked)
    except Exception:  # noqa: BLE001 - it may break whatever is made of it, this too
        return 0
    return peeked.count


def note_unreadable(lane: Lane, batch: Batch, source: Source, offset: int) -> None:
    """Record a frame that cannot be read: nobody reads it again, nor can a repair help."""
    if not lane.is_second:
        lane.note_partly_taken(batch, source, offset)
        lane.broken.unreadable[source.at] = None


def _judge(lane: Lane, batch: Batch, source: Source, offset: int, peeked: Peeked) -> int | None:
    """Judge a frame by its chain.

    Returns:
        The origin offset after which its messages are accepted (-1: all), or None for none.
    """
    hop, positions = peeked.hop, lane.positions
    chain, key = hop.chain, (source.at, hop.chain.source)
    last = positions.accepted.get(key, NONE_OFFSET)
    is_gap, is_repair = peeked.kind is FrameKind.GAP, bool(peeked.flags & FrameFlags.REPAIR)
    if source.message_class is MessageClass.DIRECT:
        if hop.lane_epoch < lane.direct.epoch(source.at, hop.lane_epoch):
            batch.dropped(DropReason.STALE_EPOCH, source.at, peeked.count)
            return None
        if last >= chain.last:
            batch.dropped(DropReason.DUPLICATE, source.at, peeked.count)
            return None
        # Accepted whatever is missing before it. Spec: DESIGN 6.
        lane.note(batch, Accepted(*key, chain.last))
        return NONE_OFFSET
    if is_repair and not is_gap and not peeked.count:
        _end_repair(lane, batch, source, hop, offset)
        return None
    is_given_up, is_broken = key in lane.broken.given_up, key in positions.gaps
    is_excused = is_given_up or (source.at in lane.broken.forgiven and not is_broken)
    verdict = judge(chain, last, is_broken=is_broken, is_excused=is_excused, is_gap=is_gap)
    match verdict:
        case Verdict.ACCEPT | Verdict.PARTIAL:
            if chain.previous > last and is_given_up:
                announce_unreadable(lane, batch, source, hop, last, offset)
            elif chain.previous > last:
                lane.broken.forgiven.discard(source.at)
            lane.broken.given_up.discard(key)
            lane.note(batch, Accepted(*key, chain.last))
            if is_repair:
                repair_comes(lane, batch, key)
            else:
                end_repair(lane, batch, key)
            # Only what its origin sends has several positions, and those are of its messages.
            return generation_and_offset(last)[1] if verdict is Verdict.PARTIAL else NONE_OFFSET
        case Verdict.GAP:
            ask_repair(lane, batch, key)
        case Verdict.WAITING:
            ask_again(lane, batch, key)
        case Verdict.DUPLICATE:
            pass
    batch.dropped(DropReason(verdict), source.at, peeked.count)
    return None


def _end_repair(lane: Lane, batch: Batch, source: Source, hop: Hop, offset: int) -> None:
    """Take the frame without messages that ends a repair: what follows it is accepted. K20."""
    chain, key = hop.chain, (source.at, hop.chain.source)
    last = lane.positions.accepted.get(key, NONE_OFFSET)
    if key in lane.broken.given_up and chain.previous > last:
        announce_unreadable(lane, batch, source, hop, last, offset)
        lane.broken.given_up.discard(key)
        last = chain.previous
    if chain.previous <= last:
        # It may have brought more than the lane had sent: that is not taken once more.
        lane.note(batch, Accepted(*key, max(last, chain.last)))
        end_repair(lane, batch, key)
    else:
        repair_failed(lane, batch, key)
