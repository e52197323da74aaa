"""A target that cannot be written is held: the lane goes on for the others. Spec: K20.

The topic of an endpoint or outbox may refuse records for long: a right taken away, a limit lowered,
a partition without a leader. After some attempts the lane leaves that target out; a catch-up with
transactions of its own tries to write it alone, from where it was left off, until it meets the
lane. Its writer and its readers are opened beside the loop: the brokers in question may not answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import structlog

from mesh.errors import PoisonError, TransportError
from mesh.lane.lane import Lane
from mesh.lane.target_holds import endpoint_of, hold_key
from mesh.model.inputs import Input
from mesh.transport.port import KafkaCluster
from mesh.worker.lanes.owned import Lanes
from mesh.worker.second_writer.displacing import Displacing
from mesh.worker.second_writer.held_target import DueTarget, TargetCatchUp, TargetKey
from mesh.worker.second_writer.opening import OpenedCatchUp
from mesh.worker.second_writer.quarantine import Suspect
from mesh.worker.second_writer.scheduling import Scheduler

RETRY_MS = 5_000
"""How long a catch-up that failed rests."""

SHARE_MS = 30_000
"""How long a catch-up goes on while others wait: under load it may never come as far as its lane.
It continues from there when all the others have had their turn."""

log = structlog.get_logger()


@dataclass(slots=True)
class HeldTargets:
    """Schedules the catch-ups of this worker's held targets, one after another.

    Attributes:
        kafka: Kafka clusters by name.
        home: Name of the node's own.
        lanes: The lanes.
        scheduler: Runs the catch-ups.
    """

    kafka: Mapping[str, KafkaCluster]
    home: str
    lanes: Lanes
    scheduler: Scheduler[DueTarget, TargetCatchUp] = field(init=False)
    _tried_ms: dict[TargetKey, int] = field(default_factory=dict)
    _suspects: dict[TargetKey, Suspect] = field(default_factory=dict)
    _displacing: Displacing = field(init=False)

    def __post_init__(self) -> None:
        """Let displacing share the lane's second writer with catch-ups: both need it."""
        home = self.kafka[self.home]
        self.scheduler = Scheduler(home, self.lanes, self)
        self._displacing = Displacing(home, self.lanes)

    @property
    def is_active(self) -> bool:
        """Whether it has the lane's second writer just now."""
        return self.scheduler.is_active or self._displacing.is_active

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for what a catch-up needs, or for a commit."""
        return self.scheduler.is_waiting or self._displacing.is_waiting

    def step(self, now_ms: int) -> Iterator[Input]:
        """Write some more of held targets; yield what commits of the lane report."""
        self.scheduler.drop_if_needless()
        if not self.scheduler.is_active:
            self._displacing.step()
        if (work := self.scheduler.work) is not None and self._others_wait(work, now_ms):
            self.give_way(now_ms)
        yield from self.scheduler.step(now_ms, may_begin=not self._displacing.is_active)

    def close(self) -> None:
        """Stop; the next owner of the lanes goes on."""
        self._displacing.close()
        self.scheduler.leave()

    # -- which comes next -------------------------------------------------------------------

    def next_due(self, now_ms: int) -> DueTarget | None:
        """Return the target that comes next."""
        for lane, target in self._due(now_ms):
            self._tried_ms[lane.number, target] = now_ms
            return DueTarget(self.kafka, self.lanes, lane, target)
        return None

    def _due(self, now_ms: int) -> Iterator[tuple[Lane, str]]:
        for lane in self.lanes.owned.values():
            if lane.following.is_learning:
                continue  # it would route by less than it owes
            for target in lane.held_targets:
                key = (lane.number, target)
                if key in self.lanes.full or self._is_closed(lane, target):
                    continue
                tried = self._tried_ms.get(key, -RETRY_MS)
                if now_ms - tried >= RETRY_MS and now_ms - lane.taken_ms >= RETRY_MS:
                    yield lane, target

    def give_way(self, now_ms: int) -> None:
        """Let others have their turn, if the present catch-up has had its share."""
        work = self.scheduler.work
        if work is None or work.is_waiting or now_ms - work.began_ms < SHARE_MS:
            return
        log.info("target.gives_way", target=work.target, lane=work.lane.number)
        self._tried_ms[work.key] = now_ms
        self.scheduler.leave()

    def _others_wait(self, work: TargetCatchUp, now_ms: int) -> bool:
        due = ((lane.number, target) for lane, target in self._due(now_ms))
        return any(key != work.key for key in due)

    # -- what becomes of it -----------------------------------------------------------------

    def is_wanted(self, due: DueTarget) -> bool:  # noqa: ARG002
        """Return whether what is being opened is still wanted: `begin` checks."""
        return True

    def begin(self, due: DueTarget, opened: OpenedCatchUp, now_ms: int) -> TargetCatchUp | None:
        """Begin with what was opened, if the target is still held as it was at the look."""
        is_same = due.hold == due.lane.progress.holds.number(due.target)
        if not is_same or not self._is_writable(due.lane, due.target):
            return None
        return TargetCatchUp.begin(due, opened, self.kafka[self.home], self._suspects, now_ms)

    def may_go_on(self, work: TargetCatchUp) -> bool:
        """Return whether a catch-up is still what its target needs.

        If its endpoint was subscribed again meanwhile, or ended, it would write what nobody is
        owed, or leave out what somebody is. If the lane has let go of one of its sources, since the
        link was removed, it would send on a chain that the lane itself keeps again.
        """
        lane, target, held = work.lane, work.target, work.lane.progress.holds
        keys = {hold_key(lane, target, source) for source in work.again.sources}
        is_same = endpoint_of(lane, target) == work.endpoint and keys <= held.next(target).keys()
        return self._is_writable(lane, target) and is_same

    def _is_writable(self, lane: Lane, target: str) -> bool:
        """Return whether a target is still held, and neither full nor known to refuse."""
        is_held = lane.holds_target(target)
        is_out = (lane.number, target) in self.lanes.full
        is_out = is_out or self._is_closed(lane, target)
        return self.lanes.owns(lane) and is_held and not is_out

    def _is_closed(self, lane: Lane, target: str) -> bool:
        """Return whether a look has found the target unwritable."""
        unwritable = self.lanes.refusals.unwritable
        return bool(unwritable) and target in unwritable.of_lane(lane.number, lane.lanes)

    def failed(self, due: DueTarget, error: TransportError | PoisonError | None) -> None:
        """Let a target rest that could not be written."""
        if error is None:
            return
        log.warning("target.still_held", target=due.target, fault=str(error))
        # The failed attempt may itself have taken as long as the rest.
        self._tried_ms[due.key] = self.lanes.clock.now_ms()
        if isinstance(error, TransportError):
            # It may have been deleted while no lane wrote it.
            self.lanes.refusals.topics.update(dict.fromkeys(error.topics))

    def left(self, work: TargetCatchUp) -> None:
        """Have the next catch-up of a target begin at once, if that is due."""
        if work.is_due_again:
            del self._tried_ms[work.key]
