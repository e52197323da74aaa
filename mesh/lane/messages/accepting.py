"""Which of a neighbour's frames are accepted: their chain decides, also where one is unreadable.

Spec: K11, K18, K20.
"""

from __future__ import annotations

from mesh.core.chain import ChainVerdict, judge
from mesh.core.local_links import LocalLink
from mesh.lane.faults import (
    ask_again,
    ask_repair,
    close_gap,
    end_repair,
    is_hopeless,
    repair_comes,
    repair_failed,
)
from mesh.lane.messages.gaps import announce_unreadable
from mesh.lane.partly_taken import note_partly_taken
from mesh.lane.partly_taken_marks import NOT_TAKEN
from mesh.lane.run import Run
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

WHOLE = NONE_OFFSET
"""A frame is accepted whole: no message of it stands at or before this offset."""


def judge_frame(run: Run, offset: int, peeked: Peeked) -> int | None:
    """Decide which messages of a frame are accepted.

    A catch-up begins in the middle of chains: it takes what the lane took. Spec: K11, K20.

    Returns:
        The offset at its origin behind which they are, `WHOLE` if that is all of them; None if
        none is.
    """
    lane, source = run.lane, run.source
    if lane.catch_up_router is not None:  # the same as `is_catch_up`, without a call per frame
        marked = lane.progress.taken_after(source.at, source.topic_id, offset)
        return WHOLE if marked is None else marked
    after = _judge_by_chain(run, offset, peeked)
    if after != WHOLE:
        note_partly_taken(run, offset, NOT_TAKEN if after is None else after)
    return after


def pass_over(run: Run, link: LocalLink, record: Record) -> int:
    """Have the chain go on behind a frame that is put aside; return how many messages it has."""
    note_unreadable(run, record.offset())
    try:
        peeked = peek(record.key() or b"")
        if peeked.hop.path[-1] == link.neighbour:
            _judge_by_chain(run, record.offset(), peeked)
    except Exception:  # noqa: BLE001 - it may break whatever is made of it, this too
        return 0
    return peeked.count


def note_unreadable(run: Run, offset: int) -> None:
    """Record a frame that cannot be read: nobody reads it again, nor can a repair help."""
    if not run.lane.is_catch_up:
        note_partly_taken(run, offset)
        run.lane.broken.note_unreadable(run.source.at)


def _judge_by_chain(run: Run, offset: int, peeked: Peeked) -> int | None:
    """Decide the same where the chain is followed."""
    lane, batch, source = run.lane, run.batch, run.source
    hop, progress = peeked.hop, lane.progress
    chain, key = hop.chain, (source.at, hop.chain.source)
    last = progress.accepted.get(key, NONE_OFFSET)
    is_gap, is_repair = peeked.kind is FrameKind.GAP, bool(peeked.flags & FrameFlags.REPAIR)
    if source.message_class is MessageClass.DIRECT:
        if hop.lane_epoch < lane.direct.epoch(source.at, hop.lane_epoch):
            batch.count_dropped(DropReason.STALE_EPOCH, source.at, peeked.count)
            return None
        if last >= chain.last:
            batch.count_dropped(DropReason.DUPLICATE, source.at, peeked.count)
            return None
        # Accepted whatever is missing before it. Spec: DESIGN 6.
        lane.note(batch, Accepted(*key, chain.last))
        return WHOLE
    if is_repair and not is_gap and not peeked.count:
        _end_repair(run, hop, offset)
        return None
    is_broken = key in progress.gaps
    if is_broken:
        is_excused = is_repair and is_hopeless(lane, key)
    else:
        is_excused = lane.broken.expects_hole(source.at)
    verdict = judge(chain, last, is_broken=is_broken, is_excused=is_excused, is_gap=is_gap)
    match verdict:
        case ChainVerdict.ACCEPT | ChainVerdict.PARTIAL:
            if is_excused and chain.previous > last:
                _pass_hole(run, hop, last, offset)
            lane.note(batch, Accepted(*key, chain.last))
            if is_repair:
                repair_comes(lane, batch, key)
            else:
                close_gap(lane, batch, key)
            # Only what its origin sends has several positions, and those are of its messages.
            return generation_and_offset(last)[1] if verdict is ChainVerdict.PARTIAL else WHOLE
        case ChainVerdict.GAP:
            ask_repair(lane, batch, key)
        case ChainVerdict.WAITING:
            ask_again(lane, batch, key)
        case ChainVerdict.DUPLICATE:
            pass
    batch.count_dropped(DropReason(verdict), source.at, peeked.count)
    return None


def _pass_hole(run: Run, hop: Hop, last: int, offset: int) -> None:
    """Go on behind what is missing before a frame: nobody asks for that."""
    lane, at = run.lane, run.source.at
    if (at, hop.chain.source) in lane.progress.gaps:
        announce_unreadable(run, hop, last, offset)
        lane.broken.unreadable_passed(at)
    else:
        lane.broken.hole_passed(at)


def _end_repair(run: Run, hop: Hop, offset: int) -> None:
    """Take the frame without messages that ends a repair: what follows it is accepted. K20."""
    lane, batch = run.lane, run.batch
    chain, key = hop.chain, (run.source.at, hop.chain.source)
    last = lane.progress.accepted.get(key, NONE_OFFSET)
    if chain.previous > last and key in lane.progress.gaps and is_hopeless(lane, key):
        _pass_hole(run, hop, last, offset)
        last = chain.previous
    if chain.previous <= last:
        # It may have brought more than the lane had sent: that is not taken once more.
        lane.note(batch, Accepted(*key, max(last, chain.last)))
        end_repair(lane, batch, key)
    else:
        repair_failed(lane, batch, key)
