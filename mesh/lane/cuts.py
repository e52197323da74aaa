"""From which position of each source on interest and a topology hold. Spec: K10, K25.

A cut is committed with the positions at which a lane stands. Whoever reads a source again stamps
and judges each message by what held where it was taken first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

from mesh.lane.batch import Batch
from mesh.lane.lane import Lane
from mesh.lane.run import Run
from mesh.lane.sources import Source
from mesh.model.control import Version
from mesh.model.facts import EraBegan, ErasBegun, InForce, InterestInForce
from mesh.model.frames import NONE_OFFSET, Era, MessageClass
from mesh.model.interest_inputs import CLIENTS
from mesh.transport.port import TopicPartition


def retell_cuts(lane: Lane, now_ms: int) -> None:
    """Have a lane that is about to read tell all cuts with its next batch, if that is long ago.

    One that reads nothing tells nothing, and owes nobody anything.
    """
    if lane.batch is None and lane.following.owes_cuts(now_ms):
        tell_cuts(lane, lane.sources.values(), lane.learner.all_cuts(), now_ms)
        lane.following.told_cuts(now_ms)


def cut_lane(
    lane: Lane, in_force: Mapping[str, Version], cuts: Mapping[str, int], now_ms: int
) -> None:
    """Record in the next commit from which positions on the router's interest holds.

    Own subscriptions are cut on every guaranteed source, those of other nodes only on the
    own ingress, where their obligation starts. Spec: K25.
    """
    batch = lane.open(now_ms, is_awaited=True)
    followed = lane.following.change
    in_force = lane.following.follow(in_force)
    lane.memos.forget_routes()
    tell_cuts(lane, lane.sources.values(), cuts, now_ms)
    if lane.following.change != followed:
        _join_eras(lane, batch)
    clients = in_force.get(CLIENTS, (0, NONE_OFFSET))[1]
    versions = [InForce(name, *version) for name, version in in_force.items()]
    lane.note(batch, InterestInForce(clients, versions))


def tell_cuts(lane: Lane, sources: Iterable[Source], cuts: Mapping[str, int], now_ms: int) -> None:
    """Write with the next commit these cuts of some sources, at their present positions."""
    batch, uuid = lane.open(now_ms), lane.learner.uuid
    own = {uuid: cuts[uuid]} if uuid in cuts else {}
    for source in sources:
        if source.message_class is MessageClass.GUARANTEED:
            told = cuts if source.link is None else own
            position = max(0, lane.position(source.at))
            batch.cut(source.at, source.topic_id, position, told)
            _begin_era(lane, batch, source.at, position)


def _begin_era(lane: Lane, batch: Batch, at: TopicPartition, position: int) -> None:
    """Record in the next commit by which topology a source is taken from a position on."""
    era = lane.learner.era
    known = lane.progress.eras.get(at, ())
    before = tuple(one for one in known if one.first < position)
    begun = before if before and before[-1].era == era else (*before, EraBegan(position, era))
    if begun != known:
        lane.note(batch, ErasBegun(at, position, begun))


def _join_eras(lane: Lane, batch: Batch) -> None:
    """Record in the next commit eras that no link tells apart as one, by the number of the oldest.

    What is read again crosses the same links by either number, now and ever after. So there are
    never many more eras of a source than links that changes made, however many changes there were.
    A node that has not switched yet may have links that are gone by now: it is waited for. The
    newest era keeps its number: it tells how far the lane has followed.
    """
    if not lane.following.is_settled(lane.learner.topology_number):
        return
    for at in lane.sources:
        known = lane.progress.eras.get(at, ())
        alike = groupby(known[:-1], key=lambda one: lane.ages.oldest_alike(one.era))
        kept = (*(next(eras) for _, eras in alike), *known[-1:])
        if len(kept) < len(known):
            lane.note(batch, ErasBegun(at, max(0, lane.position(at)), kept))


def cut_off_eras(lane: Lane, batch: Batch, at: TopicPartition, end: int) -> None:
    """Record in the next commit that what gets offsets from one on once more is taken now. R6."""
    if at in lane.progress.eras:
        _begin_era(lane, batch, at, end)


def forget_eras(lane: Lane, at: TopicPartition, start: int, now_ms: int) -> None:
    """Forget in the next commit by which topologies records were taken that are deleted.

    Nobody reads that again, and a record that only grows could not be written one day.

    Args:
        lane: Which reads it.
        at: The source.
        start: The first offset that its log still has.
        now_ms: The present moment.
    """
    known, position = lane.progress.eras.get(at, ()), max(0, lane.position(at))
    ended = sum(one.first <= min(start, position) for one in known) - 1
    if ended > 0:
        lane.note(lane.open(now_ms), ErasBegun(at, position, known[ended:]))


def eras_of(run: Run, offset: int, carried: tuple[Era, ...] = ()) -> tuple[Era, ...]:
    """Return the eras of messages taken here: those they came with, and one of this domain.

    Args:
        run: What they were read of.
        offset: Of the first of them there.
        carried: What their frame says.

    Spec: K10.
    """
    lane = run.lane
    domain = lane.learner.lineage.domain
    for one in carried:
        if one.domain == domain:
            return carried
    era = lane.progress.era_of(run.source.at, offset) or lane.learner.era
    # A node that was given another file since began another domain; a frame has one of each.
    return carried if any(one.domain == era.domain for one in carried) else (*carried, era)
