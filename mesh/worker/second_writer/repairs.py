"""What a neighbour misses is sent again, beside the lane and never through it. Spec: K11, K20.

A repair reads the lane's source again from where the neighbour's chain broke, and writes to that
neighbour alone, with transactions of its own, what is wanted there now. When it has come as far
as the lane, it says so in a last frame without messages; the lane's next frame follows that. What
the source does not have any more is announced as lost before the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import structlog

from mesh.errors import PoisonError, TransportError
from mesh.lane.faults import Asked
from mesh.lane.lane import Lane
from mesh.lane.sources import Source
from mesh.model.effects import Relinked
from mesh.model.frames import MessageClass
from mesh.model.inputs import Input
from mesh.transport.port import KafkaCluster, TopicPartition
from mesh.worker.lanes.owned import Lanes
from mesh.worker.second_writer.opening import Opening
from mesh.worker.second_writer.repair import Repair, RepairPlan

RETRY_MS = 1_000
"""How long a repair rests that failed; others have their turn first."""

log = structlog.get_logger()


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
    _active: Repair | None = None
    _opening: Opening[RepairPlan] | None = None
    _done: dict[tuple[str, bytes], int] = field(default_factory=dict)
    _failed_ms: dict[Asked, int] = field(default_factory=dict)

    @property
    def is_active(self) -> bool:
        """Whether it has the lane's second writer just now."""
        return self._active is not None or self._opening is not None

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for what a repair needs, or for a commit."""
        is_writing = self._active is not None and self._active.is_waiting
        return self._opening is not None or is_writing

    def step(self, now_ms: int) -> Iterator[Input]:
        """Send some more of what is asked for; yield what commits of the lane report."""
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
                plan = RepairPlan(self.kafka, self.lanes, *due)
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
        """Return whether something is asked for that could begin now."""
        return bool(self.asked) and self._due(now_ms) is not None

    def _due(self, now_ms: int) -> tuple[Lane, Source, Asked] | None:
        """Return what is to be repaired next: what failed comes behind all else."""
        open_ = {one: key for key, one in self.asked.items() if self._done.get(key) != one.offset}
        self._failed_ms = {one: ms for one, ms in self._failed_ms.items() if one in open_}
        for asked in sorted(open_, key=lambda one: self._failed_ms.get(one, -RETRY_MS)):
            if now_ms - self._failed_ms.get(asked, -RETRY_MS) < RETRY_MS:
                return None
            lane = self.lanes.owned.get(asked.request.outbox_partition % self.lanes.count)
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

    def _open(self, opening: Opening[RepairPlan], now_ms: int) -> None:
        """Go on opening; begin if all is open."""
        opened, plan = opening.step(now_ms), opening.plan
        if opening.is_vain or plan.asked not in self.asked.values():
            self._failed_ms[plan.asked] = now_ms
            self._leave()
        elif opened is not None:
            self._opening = None
            self._active = Repair.begin(plan, opened)

    # -- going on -------------------------------------------------------------------------

    def _go_on(self, repair: Repair, now_ms: int) -> Iterator[Input]:
        if not repair.is_waiting:
            yield from repair.again.read()
            if self._active is not repair or not self.lanes.owns(repair.again.lane):
                return  # what a commit told has changed the topology meanwhile, or ended the lane
        repair.go_on(now_ms)
        if repair.is_over:
            self._finish(repair.asked)

    def _finish(self, asked: Asked) -> None:
        for key, one in self.asked.items():
            if one == asked:
                self._done[key] = asked.offset
        log.warning("repair.done", neighbour=asked.neighbour, outbox=asked.request.outbox)
        self._leave()
