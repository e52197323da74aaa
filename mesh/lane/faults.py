"""What a lane keeps of sources that stopped and chains that broke, and reports to its node.

Kept in the lane's progress, so that a successor knows. Spec: K11, K12, R6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from mesh.core.holds import ChainKey
from mesh.lane.batch import Batch
from mesh.lane.lane import Lane
from mesh.model.control import RepairRequest, Stop, StopReason
from mesh.model.facts import Fact, Gap, Halted
from mesh.model.frames import NONE_OFFSET, SourcePartition
from mesh.model.inputs import GapFound, GapMended, Input, SourceResumed, SourceStopped
from mesh.transport.port import TopicPartition

REPAIRS_MAX = 3
"""A frame that cannot be read comes again in each repair: after so many its gap is announced."""


@dataclass(frozen=True, slots=True)
class RequestedRepair:
    """A repair request that a neighbour wrote.

    Attributes:
        neighbour: Who misses something.
        request: What.
        offset: Of the record: the same words may be said again.
    """

    neighbour: str
    request: RepairRequest
    offset: int

    @property
    def source(self) -> SourcePartition:
        """Return the source that it speaks of, by identity."""
        return SourcePartition(self.request.topic_id, self.request.partition)


def keep_stop(lane: Lane, stop: Stop, now_ms: int) -> None:
    """Record in the next commit that a source is read no further. Spec: R6."""
    lane.note(lane.open(now_ms, is_awaited=True), Halted(stop))


def lift_stop(lane: Lane, stop: Stop, now_ms: int) -> None:
    """Record in the next commit that a source is read again."""
    lane.note(lane.open(now_ms, is_awaited=True), Halted(replace(stop, reason="")))


def ask_repair(lane: Lane, batch: Batch, key: ChainKey) -> None:
    """Record in the next commit that a chain is broken, and have a repair asked for. Spec: K11."""
    last = lane.progress.accepted.get(key, NONE_OFFSET)
    _, attempts = lane.progress.gaps.get(key, (last, -1))
    lane.broken.repair_asked(key, attempts + 1, batch.opened_ms)
    lane.note(batch, Gap(*key, last, attempts + 1, is_open=True))


def repair_comes(lane: Lane, batch: Batch, key: ChainKey) -> None:
    """Record that a repair is under way, and wait as long once more. Spec: K11."""
    gap = lane.progress.gaps.get(key)
    if gap is not None:
        lane.broken.repair_comes(key, gap[1], batch.opened_ms)


def ask_again(lane: Lane, batch: Batch, key: ChainKey) -> None:
    """Ask once more if the repair has not come for long: it may have been lost as well. K11."""
    if lane.broken.is_late(key, batch.opened_ms):
        ask_repair(lane, batch, key)


def repair_failed(lane: Lane, batch: Batch, key: ChainKey) -> None:
    """Ask again for what a repair has not brought: at once a few times, then after a while.

    Each costs the neighbour all that is missing once more, and may be as vain as the one before for
    as long as a target is left out.
    """
    if _is_vain(lane, key):
        lane.broken.rest([key], batch.opened_ms)
    else:
        ask_repair(lane, batch, key)


def ask_due(lane: Lane, now_ms: int) -> None:
    """Ask for the repairs that have rested, or are overdue.

    One that was lost on its way may be the last that was ever said of its chain: no later frame
    would show that it does not come. K11.
    """
    for key in lane.broken.due(now_ms):
        if key not in lane.progress.gaps:
            lane.broken.mended(key)
            continue
        ask_repair(lane, lane.open(now_ms, is_awaited=True), key)


def is_hopeless(lane: Lane, key: ChainKey) -> bool:
    """Return whether what a broken chain lacks comes in repairs, but nobody here can read it.

    Then a repair goes on behind it, and it is announced as lost. What is not of a repair goes on
    waiting: between the two may be much that can be read, and that comes. Spec: K20, DESIGN 4 rule
    4.

    Not while the lane leaves a target out: who catches that up judges no chains, and would not
    announce it there.
    """
    return not lane.holds_any and _is_vain(lane, key) and lane.broken.has_unreadable(key[0])


def _is_vain(lane: Lane, key: ChainKey) -> bool:
    """Return whether what a chain lacks was asked for so often that once more will hardly help."""
    _, attempt = lane.progress.gaps.get(key, (NONE_OFFSET, 0))
    return attempt + 1 >= REPAIRS_MAX


def close_gap(lane: Lane, batch: Batch, key: ChainKey) -> None:
    """Record in the next commit that a chain is whole again, if it was broken. Spec: K20."""
    gap = lane.progress.gaps.get(key)
    if gap is not None:
        lane.note(batch, Gap(*key, *gap, is_open=False))


def end_repair(lane: Lane, batch: Batch, key: ChainKey) -> None:
    """Record in the next commit that a repair has come to its end, also if nothing was missing.

    A request may outlive its gap, if its link was removed or if who made it died before its end was
    written. The neighbour would send everything again each time it starts. Spec: K11.
    """
    gap = lane.progress.gaps.get(key, (lane.progress.accepted.get(key, NONE_OFFSET), 0))
    lane.note(batch, Gap(*key, *gap, is_open=False))


def recovered(lane: Lane, neighbours: Mapping[str, str], now_ms: int) -> None:
    """Tell the node what a lane that was just taken knows of its sources' faults, and no more.

    A version that the former owner could not read may be known here: that is tried again. What
    this worker was told of the lane before may be over: somebody else had it in between, or a
    commit that seemed to fail has come about.

    Args:
        lane: Taken just now.
        neighbours: Outbox topic -> who writes it.
        now_ms: The present moment.
    """
    progress = lane.progress
    notices = lane.open(now_ms).notices
    notices += _over(lane)
    known: list[Fact] = []
    for stop in list(progress.stopped.values()):
        if stop.reason == StopReason.VERSION:
            lift_stop(lane, stop, now_ms)
        else:
            known.append(Halted(stop))
    known += [Gap(*key, *gap, is_open=True) for key, gap in progress.gaps.items()]
    lane.broken.rest(progress.gaps, now_ms)
    notices += inputs_of(known, neighbours)


def _over(lane: Lane) -> Iterator[Input]:
    """Yield the end of those faults that the node knows of a lane, and the lane does not."""
    progress, known = lane.progress, lane.learner.faults
    for (neighbour, *_), request in known.gaps.items():
        at = TopicPartition(request.outbox, request.outbox_partition)
        of = SourcePartition(request.topic_id, request.partition)
        if lane.has(at.partition) and (at, of) not in progress.gaps:
            yield GapMended(neighbour, request)
    for topic, partition in known.stops:
        is_stopped = TopicPartition(topic, partition) in progress.stopped
        if lane.has(partition) and not is_stopped:
            yield SourceResumed(topic, partition)


def inputs_of(facts: Iterable[Fact], neighbours: Mapping[str, str]) -> Iterator[Input]:
    """Yield what facts, of this or another worker, say to the node about faults.

    Args:
        facts: Of lanes of this node.
        neighbours: Outbox topic -> who writes it.
    """
    for fact in facts:
        at = fact.at
        match fact:
            case Halted(is_over=True):
                yield SourceResumed(at.topic, at.partition)
            case Halted(stop):
                yield SourceStopped(neighbours.get(at.topic, ""), stop)
            case Gap() if at.topic in neighbours:
                request = _request(at, fact.source, fact.last, fact.attempts)
                make = GapFound if fact.is_open else GapMended
                yield make(neighbours[at.topic], request)


def _request(at: TopicPartition, of: SourcePartition, last: int, attempt: int) -> RepairRequest:
    return RepairRequest(at.topic, at.partition, of.topic_id, of.partition, last, attempt)
