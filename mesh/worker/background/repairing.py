"""What a neighbour misses is sent again, beside the lane and never through it. Spec: K11, K20.

A repair reads the lane's source again from where the neighbour's chain broke, and writes to that
neighbour alone, with transactions of its own, what is wanted there now. When it has come as far
as the lane, it says so in a last frame without messages; the lane's next frame follows that. What
the source does not have any more is announced as lost before the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby

import structlog

from mesh.core.routing import LocalLink
from mesh.core.truncations import begin_after, generation_at, parts
from mesh.errors import PoisonError, TransportError
from mesh.lane.batch import Batch
from mesh.lane.faults import Asked
from mesh.lane.lane import Lane, Source
from mesh.lane.messages.gaps import EMPTY, announce, own_provenance
from mesh.lane.messages.outgoing import hop_over
from mesh.lane.positions import Positions
from mesh.model.control import Stop, StopReason
from mesh.model.effects import Relinked
from mesh.model.facts import Fact, Truncation
from mesh.model.frames import (
    NONE_OFFSET,
    Chain,
    FrameFlags,
    MessageClass,
    Origin,
    generation_and_offset,
    position_in_chain,
)
from mesh.model.inputs import Input
from mesh.transport.port import KafkaCluster, Record, TopicPartition, Writer
from mesh.wire.frames import key_tail, relay_key
from mesh.worker.background.catching_up import Begins, CatchUp, account, route_again, shadow_of
from mesh.worker.background.opening import Opened, Opening
from mesh.worker.lanes.owned import Lanes
from mesh.worker.process.commits import Pending
from mesh.worker.process.errands import Steps
from mesh.worker.process.transactions import transact

RETRY_MS = 1_000
"""How long a repair rests that failed; others have their turn first."""

log = structlog.get_logger()


@dataclass(slots=True)
class _Repair:
    """One repair under way.

    Attributes:
        asked: What for.
        link: To whom.
        source: What is read again; its topic is empty if that is gone for good.
        again: Reads it.
        writer: Writes the repair.
        known: What is known of the target.
        truncations: Losses at the end of the source that were accepted.
        generation: Of the offsets that it has come to: what was lost before is announced.
        pending: The commit under way.
        is_last: Whether all is sent with that.
    """

    asked: Asked
    link: LocalLink
    source: Source
    again: CatchUp
    writer: Writer
    known: Positions
    truncations: Sequence[Truncation]
    generation: int
    pending: Pending = field(default_factory=Pending)
    is_last: bool = False

    def close(self) -> None:
        self.again.close()
        self.pending.close(self.writer)


@dataclass(slots=True)
class _Plan:
    """A repair that is to begin.

    Attributes:
        kafka: Kafka clusters by name.
        lanes: All lanes of the worker.
        lane: Whose.
        source: What is to be read again.
        asked: What for.
        first: From this position on.
        again: Is to read it.
    """

    kafka: Mapping[str, KafkaCluster]
    lanes: Lanes
    lane: Lane
    source: Source
    asked: Asked
    first: int = 0
    again: CatchUp = field(init=False)

    def begin(self, told: Sequence[Fact], now_ms: int) -> Steps[Begins] | None:  # noqa: ARG002
        """Read on behind what the neighbour has."""
        lane, source, asked = self.lane, self.source, self.asked
        link = lane.learner.neighbours.get(asked.neighbour)
        if link is None:
            return None  # its link was removed meanwhile
        key = (lane.outbox(link.link, source), source.identity)
        self.first = max(asked.request.last + 1, lane.positions.since.get(key, 0))
        self.again = CatchUp(self.lanes, lane, [source] if source.at.topic else [])
        begin = begin_after(lane.truncations(source), self.first)
        return self.again.opening(self.kafka, {source.at: begin}, "repair")


@dataclass(slots=True)
class Repairs:
    """Does the repairs that neighbours ask of the lanes of this worker, one after another.

    Attributes:
        kafka: Kafka clusters by name.
        home: Name of the node's own.
        lanes: The lanes.
        asked: Open requests by neighbour and record key; the listener keeps it.
    """

    kafka: Mapping[str, KafkaCluster]
    home: str
    lanes: Lanes
    asked: Mapping[tuple[str, bytes], Asked]
    _active: _Repair | None = None
    _opening: Opening[_Plan] | None = None
    _done: dict[tuple[str, bytes], int] = field(default_factory=dict)
    _failed_ms: dict[Asked, int] = field(default_factory=dict)

    @property
    def is_active(self) -> bool:
        """Whether it has the lane's second writer just now."""
        return self._active is not None or self._opening is not None

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for what a repair needs, or for a commit."""
        is_writing = self._active is not None and self._active.pending.is_any
        return self._opening is not None or is_writing

    def step(self, now_ms: int) -> Iterator[Input]:
        """Send some more of what is asked for; yield what commits of the lane tell."""
        if not (self.asked or self._done or self._active or self._opening):
            return
        if self._active is not None and not self.lanes.owns(self._active.again.lane):
            self._leave()
        for key in [key for key in self._done if key not in self.asked]:
            del self._done[key]  # asked again it may stand at the same offset of another topic
        tried = self._tried
        try:
            if tried is None and (due := self._due(now_ms)) is not None:
                tried = due[2]
                plan = _Plan(self.kafka, self.lanes, *due)
                self._opening = Opening(self.kafka[self.home], self.lanes, plan)
            if self._opening is not None:
                self._open(self._opening, now_ms)
            if self._active is not None:
                yield from self._go_on(self._active, now_ms)
        except (TransportError, PoisonError) as error:
            log.warning("repair.failed", fault=str(error))
            if tried is not None:
                # The failure itself may have taken as long as it is to rest.
                self._failed_ms[tried] = self.lanes.clock.now_ms()
            self._leave()

    @property
    def _tried(self) -> Asked | None:
        """What is being repaired, or opened."""
        if self._active is not None:
            return self._active.asked
        return None if self._opening is None else self._opening.plan.asked

    def close(self) -> None:
        """Stop; what is not done is done by whoever takes the lanes."""
        self._leave()

    def _leave(self) -> None:
        for one in (self._active, self._opening):
            if one is not None:
                one.close()
        if self._active is not None:
            self.lanes.stand_still(self._active.again.lane, for_now=False)
        self._active = self._opening = None

    def relink(self, relinked: Relinked, now_ms: int) -> None:  # noqa: ARG002
        """Repair nothing for neighbours whose links were removed."""
        if self._tried is not None and self._tried.neighbour in relinked.gone:
            log.warning("repair.ended", neighbour=self._tried.neighbour)
            self._leave()

    # -- beginning ------------------------------------------------------------------------

    def is_due(self, now_ms: int) -> bool:
        """Say whether something is asked for that could begin now."""
        return bool(self.asked) and self._due(now_ms) is not None

    def _due(self, now_ms: int) -> tuple[Lane, Source, Asked] | None:
        """Return what is to be repaired next: what failed comes behind all else."""
        count = self.lanes.topology.nodes[self.lanes.machine.node].lanes
        open_ = {one: key for key, one in self.asked.items() if self._done.get(key) != one.offset}
        self._failed_ms = {one: ms for one, ms in self._failed_ms.items() if one in open_}
        for asked in sorted(open_, key=lambda one: self._failed_ms.get(one, -RETRY_MS)):
            if now_ms - self._failed_ms.get(asked, -RETRY_MS) < RETRY_MS:
                return None
            lane = self.lanes.owned.get(asked.request.outbox_partition % count)
            if lane is None or lane.is_learning:
                continue
            source = self._source(lane, asked)
            if source is not None:
                return lane, source, asked
        return None

    def _source(self, lane: Lane, asked: Asked) -> Source | None:
        """Return what the lane reads; None if it cannot be read just now.

        A topic that is gone for good stands for itself: everything in it is lost.
        """
        for source in lane.sources.values():
            if source.identity == asked.source:
                return source
        if asked.request.topic_id in lane.positions.topic_ids.values():
            return None
        gone = TopicPartition("", asked.request.partition)
        return Source(gone, asked.request.topic_id, MessageClass.GUARANTEED, None)

    def _open(self, opening: Opening[_Plan], now_ms: int) -> None:
        """Go on opening; begin if all is open."""
        opened, plan = opening.step(now_ms), opening.plan
        if opening.is_vain or plan.asked not in self.asked.values():
            self._failed_ms[plan.asked] = now_ms
            self._leave()
        elif opened is not None:
            self._opening = None
            self._active = _begin(plan, opened)

    # -- going on -------------------------------------------------------------------------

    def _go_on(self, repair: _Repair, now_ms: int) -> Iterator[Input]:
        again = repair.again
        if repair.pending.is_any:
            self._end_commit(repair)
            return
        yield from again.read()
        if not self.lanes.owns(again.lane):
            return
        records = again.records.get(repair.source.at, [])
        if records or again.is_met or again.lost:
            shadow = shadow_of(again.lane, repair.known, link=repair.link)
            shadow.flags = FrameFlags.REPAIR
            batch = shadow.open(now_ms)
            self._send(repair, shadow, batch, records, now_ms)
            account(shadow, batch, repair=True)
            repair.is_last = again.is_met
            transaction = partial(transact, repair.writer, batch.rows)
            repair.pending.begin(self.lanes.commits, transaction)
            self._end_commit(repair)

    def _end_commit(self, repair: _Repair) -> None:
        """See what has become of a commit, if that is known; the lane waits for the last."""
        if not repair.pending.is_through:
            self.lanes.stand_still(repair.again.lane, for_now=repair.is_last)
            return
        repair.pending.end()
        if repair.is_last:
            self._finish(repair)

    def _send(
        self,
        repair: _Repair,
        shadow: Lane,
        batch: Batch,
        records: Sequence[Record],
        now_ms: int,
    ) -> None:
        """Write what was read and what was not there any more, in order of their positions."""
        again, truncations = repair.again, repair.truncations
        for lost in again.lost:
            for generation, first, end in parts(truncations, lost.first, lost.next):
                source = _come_to(repair, shadow, batch, generation)
                part = replace(lost, first=first, next=end, generation=source.generation)
                _announce(shadow, batch, source, part, source.generation, end)
        again.lost.clear()
        generations = groupby(records, lambda one: generation_at(truncations, one.offset()))
        for generation, some in generations:
            source = _come_to(repair, shadow, batch, generation)
            route_again(shadow, source, list(some), self.lanes.poison, now_ms)
        if again.is_met:
            newest = max((one.generation for one in truncations), default=0)
            _come_to(repair, shadow, batch, newest)
            self._write_end(repair, shadow, batch)

    def _write_end(self, repair: _Repair, shadow: Lane, batch: Batch) -> None:
        """Write that the repair is complete up to the last frame of the lane. Spec: K20."""
        source, outbox = repair.source, shadow.outbox(repair.link, repair.source)
        key = (outbox, source.identity)
        last = repair.again.lane.positions.sent.get(key, NONE_OFFSET)
        previous = min(repair.known.sent[key], last)
        chain = Chain(source=source.identity, previous=previous, first=last, last=last)
        origin = Origin(
            node=shadow.node,
            source=source.identity,
            generation=0,
            first=0,
            last=0,
            count=0,
            subjects=(),
            eras=(shadow.learner.era,),
        )
        hop = hop_over(shadow, repair.link, own_provenance(shadow, source), chain)
        tail = key_tail(origin, shadow.flags)
        batch.write(outbox, EMPTY, relay_key(hop, tail))

    def _finish(self, repair: _Repair) -> None:
        asked = repair.asked
        for key, one in self.asked.items():
            if one == asked:
                self._done[key] = asked.offset
        log.warning("repair.done", neighbour=asked.neighbour, outbox=asked.request.outbox)
        self._leave()


def _begin(plan: _Plan, opened: Opened) -> _Repair:
    """Begin to read, and to write, with what was opened."""
    asked, source, again, lane = plan.asked, plan.source, plan.again, plan.lane
    link = lane.link(asked.neighbour)
    key = (lane.outbox(link, source), source.identity)
    again.begin(opened.begins)
    generation, first = generation_and_offset(plan.first)
    if not source.at.topic:
        newest, end = generation_and_offset(lane.positions.sent.get(key, NONE_OFFSET) + 1)
        reason, topic_id = StopReason.RECREATED, source.topic_id
        if newest > generation:
            source, first, generation = replace(source, generation=newest), 0, newest
        if end > first:
            again.lost.append(Stop("", source.at.partition, topic_id, reason, first, end))
    known = lane.positions.of_target({key: asked.request.last})
    log.warning(
        "repair.begun",
        neighbour=asked.neighbour,
        after=asked.request.last,
        outbox=asked.request.outbox,
        partition=asked.request.outbox_partition,
    )
    truncations = lane.truncations(source)
    return _Repair(asked, link, source, again, opened.writer, known, truncations, generation)


def _come_to(repair: _Repair, shadow: Lane, batch: Batch, generation: int) -> Source:
    """Announce what was lost before a generation of the source; return that as it is read then."""
    for one in repair.truncations:
        if repair.generation < one.generation <= generation:
            source, at = replace(repair.source, generation=one.generation - 1), repair.source.at
            reason, topic_id = StopReason.TRUNCATED, source.topic_id
            before = one.generation - 1
            lost = Stop(at.topic, at.partition, topic_id, reason, one.first, one.next, before)
            _announce(shadow, batch, source, lost, one.generation, one.first)
    repair.generation = max(repair.generation, generation)
    return replace(repair.source, generation=repair.generation)


def _announce(
    shadow: Lane, batch: Batch, source: Source, lost: Stop, generation: int, offset: int
) -> None:
    goes_on = position_in_chain(generation, offset)
    provenance = own_provenance(shadow, source)
    announce(shadow, batch, source, lost, provenance, goes_on, is_local=False)
