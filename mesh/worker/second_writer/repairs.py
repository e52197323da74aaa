"""Sends again what a neighbour misses, beside the lane and never through it. Spec: K11, K20.

A repair reads the lane's source again from where the neighbour's chain broke, and writes what is
wanted there now to that neighbour alone, in transactions of its own. When it has come as far as the
lane, a last frame without messages says so; the lane's next frame follows that. What the source no
longer has is announced as lost before the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import structlog

from mesh.errors import PoisonError, TransportError
from mesh.lane.faults import RequestedRepair
from mesh.lane.lane import Lane
from mesh.lane.sources import Source
from mesh.model.effects import Relinked
from mesh.model.frames import MessageClass
from mesh.model.inputs import Input
from mesh.transport.port import KafkaCluster, TopicPartition
from mesh.worker.lanes.owned import Lanes
from mesh.worker.second_writer.opening import OpenedCatchUp
from mesh.worker.second_writer.repair import DueRepair, Repair
from mesh.worker.second_writer.scheduling import Scheduler

RETRY_MS = 1_000
"""How long a failed repair rests; others have their turn first."""

log = structlog.get_logger()


@dataclass(slots=True)
class Repairs:
    """Schedules the repairs that neighbours request from this worker's lanes, one after another.

    Attributes:
        kafka: Kafka clusters by name.
        home: Name of the node's own.
        lanes: The lanes.
        asked: Open requests by neighbour and record key; maintained by the listener.
        scheduler: Runs the repairs.
    """

    kafka: Mapping[str, KafkaCluster]
    home: str
    lanes: Lanes
    asked: Mapping[tuple[str, bytes], RequestedRepair]
    scheduler: Scheduler[DueRepair, Repair] = field(init=False)
    _done: dict[tuple[str, bytes], int] = field(default_factory=dict)
    _failed_ms: dict[RequestedRepair, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Build the scheduler."""
        self.scheduler = Scheduler(self.kafka[self.home], self.lanes, self)

    @property
    def is_active(self) -> bool:
        """Whether it has the lane's second writer just now."""
        return self.scheduler.is_active

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for what a repair needs, or for a commit."""
        return self.scheduler.is_waiting

    def step(self, now_ms: int) -> Iterator[Input]:
        """Send some more of what was requested; yield what commits of the lane report."""
        if not (self.asked or self._done or self.is_active):
            return
        self.scheduler.drop_if_needless()
        for key in [key for key in self._done if key not in self.asked]:
            del self._done[key]  # a new request may have the same offset in another topic
        yield from self.scheduler.step(now_ms)

    def close(self) -> None:
        """Stop; the next owner of the lanes does the rest."""
        self.scheduler.leave()

    def relink(self, relinked: Relinked, now_ms: int) -> None:  # noqa: ARG002
        """Drop repairs for neighbours whose links were removed."""
        due = self.scheduler.due
        if due is not None and due.asked.neighbour in relinked.gone:
            asked = due.asked
            log.warning("repair.ended", neighbour=asked.neighbour, outbox=asked.request.outbox)
            self.scheduler.leave()

    # -- which comes next -------------------------------------------------------------------

    def is_due(self, now_ms: int) -> bool:
        """Return whether there is a request that could begin now."""
        return bool(self.asked) and self._due(now_ms) is not None

    def next_due(self, now_ms: int) -> DueRepair | None:
        """Return the repair that comes next."""
        due = self._due(now_ms)
        return None if due is None else DueRepair(self.kafka, self.lanes, *due)

    def _due(self, now_ms: int) -> tuple[Lane, Source, RequestedRepair] | None:
        """Return what to repair next: failed repairs come after all others."""
        open_ = {one: key for key, one in self.asked.items() if self._done.get(key) != one.offset}
        self._failed_ms = {one: ms for one, ms in self._failed_ms.items() if one in open_}
        for asked in sorted(open_, key=lambda one: self._failed_ms.get(one, -RETRY_MS)):
            if now_ms - self._failed_ms.get(asked, -RETRY_MS) < RETRY_MS:
                return None
            lane = self.lanes.owned.get(asked.request.outbox_partition % self.lanes.count)
            if lane is None or lane.following.is_learning:
                continue
            source = self._source(lane, asked)
            if source is not None:
                return lane, source, asked
        return None

    def _source(self, lane: Lane, asked: RequestedRepair) -> Source | None:
        """Return what the lane reads; None if it cannot be read just now.

        For a topic that is gone for good everything in it is lost. The same holds for a source over
        a removed link: it is no longer read, and a waiting neighbour would wait forever.
        """
        for source in lane.sources.values():
            if source.identity == asked.source:
                return source
        read = [at for at, id_ in lane.progress.ids_read.items() if id_ == asked.request.topic_id]
        if any(at not in lane.progress.unlinked for at in read):
            return None
        gone = TopicPartition("", asked.request.partition)
        return Source(gone, asked.request.topic_id, MessageClass.GUARANTEED, None)

    # -- what becomes of it -----------------------------------------------------------------

    def is_wanted(self, due: DueRepair) -> bool:
        """Return whether a repair is still requested."""
        return due.asked in self.asked.values()

    def begin(self, due: DueRepair, opened: OpenedCatchUp, now_ms: int) -> Repair:  # noqa: ARG002
        """Begin a repair with what was opened."""
        return Repair.begin(due, opened)

    def may_go_on(self, work: Repair) -> bool:
        """Return whether its lane is still the one that this worker owns."""
        return self.lanes.owns(work.lane)

    def failed(self, due: DueRepair, error: TransportError | PoisonError | None) -> None:
        """Let a repair rest that failed, or changed nothing."""
        if error is not None:
            neighbour, outbox = due.asked.neighbour, due.asked.request.outbox
            log.warning("repair.failed", neighbour=neighbour, outbox=outbox, fault=str(error))
        # The failed attempt may itself have taken as long as the rest.
        self._failed_ms[due.asked] = self.lanes.clock.now_ms()

    def left(self, work: Repair) -> None:
        """Record the request of a repair that is done."""
        if not work.is_over:
            return
        asked = work.asked
        for key, one in self.asked.items():
            if one == asked:
                self._done[key] = asked.offset
        log.warning("repair.done", neighbour=asked.neighbour, outbox=asked.request.outbox)
