"""Sends again what one neighbour misses, until that meets the lane. Spec: K11, K20.

What the source no longer has is announced as lost before the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby

import structlog

from mesh.core.local_links import LocalLink
from mesh.core.truncations import begin_after, generation_at, parts
from mesh.lane.faults import RequestedRepair
from mesh.lane.lane import Lane
from mesh.lane.messages.gaps import EMPTY, announce, own_provenance
from mesh.lane.messages.outgoing import hop_over
from mesh.lane.progress import Progress
from mesh.lane.run import Run
from mesh.lane.sources import Source
from mesh.lane.truncations import accepted_truncations
from mesh.model.control import Stop, StopReason
from mesh.model.facts import Fact, Sent, Truncation
from mesh.model.frames import (
    NONE_OFFSET,
    Chain,
    FrameFlags,
    Origin,
    generation_and_offset,
    position_in_chain,
)
from mesh.model.inputs import Input
from mesh.transport.port import KafkaCluster, Record, Writer
from mesh.wire.frames import key_tail, relay_key
from mesh.worker.lanes.owned import Lanes
from mesh.worker.process.commits import PendingCommit
from mesh.worker.process.errands import Steps
from mesh.worker.process.transactions import transact
from mesh.worker.second_writer.catching_up import CatchUp, CatchUpStart
from mesh.worker.second_writer.opening import OpenedCatchUp
from mesh.worker.second_writer.routing_again import account, catch_up_lane, route_again

log = structlog.get_logger()


@dataclass(slots=True)
class DueRepair:
    """A repair to begin.

    Attributes:
        kafka: Kafka clusters by name.
        lanes: All lanes of the worker.
        lane: The lane.
        source: What is to be read again.
        asked: The request.
        first: Position to read from.
        again: What will read it.
    """

    kafka: Mapping[str, KafkaCluster]
    lanes: Lanes
    lane: Lane
    source: Source
    asked: RequestedRepair
    first: int = 0
    again: CatchUp = field(init=False)

    def begin(self, told: Sequence[Fact]) -> Steps[CatchUpStart] | None:
        """Read on from after what the neighbour has."""
        lane, source, asked = self.lane, self.source, self.asked
        link = lane.learner.neighbours.get(asked.neighbour)
        if link is None:
            return None  # its link was removed meanwhile
        key = (lane.outbox(link.link, source), source.identity)
        if key not in lane.progress.sent:
            # A mover of a former lane owner sent it: that owner's progress says how far.
            sent = {(one.at, one.source): one.last for one in told if isinstance(one, Sent)}
            lane.hear_movers({key: sent[key]} if key in sent else {})
        self.first = max(asked.request.last + 1, lane.progress.since.get(key, 0))
        self.again = CatchUp(self.lanes, lane, [source] if source.at.topic else [])
        begin = begin_after(accepted_truncations(lane, source), self.first)
        return self.again.opening(self.kafka, {source.at: begin}, "repair")


@dataclass(slots=True)
class Repair:
    """One repair under way.

    Attributes:
        asked: The request.
        link: The link to the neighbour.
        source: What is read again; its topic is empty if that is gone for good.
        again: Reads it.
        writer: Writes the repair.
        known: What is known of the target.
        truncations: Losses at the end of the source that were accepted.
        generation: Generation of offsets reached so far: what was lost before it is announced.
        first: Offset after what the neighbour has, in the newest generation.
        is_over: Whether everything is sent.
    """

    asked: RequestedRepair
    link: LocalLink
    source: Source
    again: CatchUp
    writer: Writer
    known: Progress
    truncations: Sequence[Truncation]
    generation: int
    first: int
    is_over: bool = False
    _is_last: bool = False
    _pending: PendingCommit = field(default_factory=PendingCommit)

    @staticmethod
    def begin(due: DueRepair, opened: OpenedCatchUp) -> Repair:
        """Begin to read, and to write, with what was opened.

        Args:
            due: What a neighbour asked for, and the source from which it is sent again.
            opened: The lane's second writer, and readers of that source.

        Returns:
            The repair: whoever has it gives it turns until it is over.
        """
        asked, source, again, lane = due.asked, due.source, due.again, due.lane
        link = lane.link(asked.neighbour)
        key = (lane.outbox(link, source), source.identity)
        again.begin(opened.begins)
        generation, first = generation_and_offset(due.first)
        if not source.at.topic:
            newest, _ = generation_and_offset(lane.progress.sent.get(key, NONE_OFFSET) + 1)
            if newest > generation:
                source, first, generation = replace(source, generation=newest), 0, newest
        known = lane.progress.of_target({key: asked.request.last})
        log.warning(
            "repair.begun",
            neighbour=asked.neighbour,
            after=asked.request.last,
            outbox=asked.request.outbox,
            partition=asked.request.outbox_partition,
        )
        return Repair(
            asked=asked,
            link=link,
            source=source,
            again=again,
            writer=opened.writer,
            known=known,
            truncations=accepted_truncations(lane, source),
            generation=generation,
            first=first,
        )

    @property
    def lane(self) -> Lane:
        """The lane whose source is read again."""
        return self.again.lane

    @property
    def steps_a_turn(self) -> int:
        """How often it goes on in a turn: one read is as much as the lane may wait for."""
        return 1

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for a commit."""
        return self._pending.is_any

    def close(self) -> None:
        """Release what it reads and writes with."""
        self.again.close()
        self._pending.close(self.writer)

    def read(self) -> Iterator[Input]:
        """Read what is to be sent next; yield what commits of the lane report."""
        yield from self.again.read()

    def go_on(self, now_ms: int) -> None:
        """Send what was read, or take the outcome of that.

        Raises:
            TransportError: It was not sent.
            PoisonError: A record breaks the routing.
        """
        if self._pending.is_any:
            self._end_commit()
            return
        again = self.again
        records = again.records.get(self.source.at, [])
        if records or again.is_met or again.lost:
            flags = FrameFlags.REPAIR
            catch_up = catch_up_lane(again.lane, self.known, link=self.link, flags=flags)
            batch = catch_up.open(now_ms)
            self._send(Run(catch_up, batch, self.source), records, now_ms)
            account(catch_up, batch, repair=True)
            self._is_last = again.is_met
            self._pending.begin(again.lanes.commits, partial(transact, self.writer, batch.rows))
            self._end_commit()

    def _end_commit(self) -> None:
        """Take the outcome of a commit, if it is known; the lane waits for the last one."""
        if not self._pending.is_through:
            self.again.lanes.stand_still(self.again.lane, for_now=self._is_last)
            return
        self._pending.end()
        self.is_over = self._is_last

    def _send(self, run: Run, records: Sequence[Record], now_ms: int) -> None:
        """Write what was read and what was missing, in order of their positions."""
        again, truncations = self.again, self.truncations
        if again.is_met and (gone := self._gone()) is not None:
            again.lost.append(gone)
        for lost in again.lost:
            for generation, first, end in parts(truncations, lost.first, lost.next):
                run = self._come_to(run, generation)
                reached = run.source.generation
                part = replace(lost, first=first, next=end, generation=reached)
                _announce(run, part, reached, end)
        again.lost.clear()
        generations = groupby(records, lambda one: generation_at(truncations, one.offset()))
        for generation, some in generations:
            run = self._come_to(run, generation)
            route_again(run.lane, run.source, list(some), again.lanes.poison, now_ms)
        if again.is_met:
            newest = max((one.generation for one in truncations), default=0)
            self._come_to(run, newest)
            self._write_end(run)

    def _write_end(self, run: Run) -> None:
        """Write that the repair is complete up to the lane's last frame. Spec: K20."""
        catch_up, source = run.lane, self.source
        outbox = catch_up.outbox(self.link, source)
        key = (outbox, source.identity)
        last = self.again.lane.progress.sent.get(key, NONE_OFFSET)
        previous = min(self.known.sent[key], last)
        chain = Chain(source=source.identity, previous=previous, first=last, last=last)
        origin = Origin(
            node=catch_up.node,
            source=source.identity,
            generation=0,
            first=0,
            last=0,
            count=0,
            subjects=(),
            eras=(catch_up.learner.era,),
        )
        hop = hop_over(catch_up, self.link, own_provenance(replace(run, source=source)), chain)
        tail = key_tail(origin, catch_up.flags)
        run.batch.write(outbox, EMPTY, relay_key(hop, tail))

    def _gone(self) -> Stop | None:
        """Return what is lost of a source that is gone for good: everything sent from it so far.

        Movers send beside the lane, and what they send before a repair ends is not accepted.
        """
        source = self.source
        if source.at.topic:
            return None
        lane = self.again.lane
        key = (lane.outbox(self.link, source), source.identity)
        _, end = generation_and_offset(lane.progress.sent.get(key, NONE_OFFSET) + 1)
        if end <= self.first:
            return None
        reason, of = StopReason.RECREATED, source.topic_id
        return Stop("", source.at.partition, of, reason, self.first, end)

    def _come_to(self, run: Run, generation: int) -> Run:
        """Announce what was lost before a generation; return the run as read in that one."""
        for one in self.truncations:
            if self.generation < one.generation <= generation:
                source, at = replace(self.source, generation=one.generation - 1), self.source.at
                reason, topic_id = StopReason.TRUNCATED, source.topic_id
                before = one.generation - 1
                lost = Stop(at.topic, at.partition, topic_id, reason, one.first, one.next, before)
                _announce(replace(run, source=source), lost, one.generation, one.first)
        self.generation = max(self.generation, generation)
        return replace(run, source=replace(self.source, generation=self.generation))


def _announce(run: Run, lost: Stop, generation: int, offset: int) -> None:
    announce(run, lost, position_in_chain(generation, offset), is_local=False)
