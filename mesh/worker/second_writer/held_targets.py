"""A target that cannot be written is held: the lane goes on for the others. Spec: K20.

An endpoint's or outbox's topic may refuse records for long: a right taken away, a limit lowered, a
partition without a leader. After some tries the lane leaves that target out; a catch-up with
transactions of its own tries to write it alone, from where it was left, until it meets the lane.
Its writer and its readers are opened beside the loop: the brokers in question may not answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import structlog

from mesh.errors import PoisonError, TransportError
from mesh.lane.held import endpoint_of, hold_key
from mesh.lane.lane import Lane
from mesh.model.inputs import Input
from mesh.transport.port import KafkaCluster
from mesh.worker.lanes.owned import Lanes
from mesh.worker.second_writer.displacing import Displacing
from mesh.worker.second_writer.held_target import TargetCatchUp, TargetKey, TargetPlan
from mesh.worker.second_writer.opening import Opening
from mesh.worker.second_writer.quarantine import Suspect

RETRY_MS = 5_000
"""How long a catch-up that failed rests."""

SHARE_MS = 30_000
"""For so long a catch-up goes on although others wait: under load it may never come as far as its
lane. It goes on from there when all of them have had their turn."""

ALONE_A_TURN = 20
"""Records that are written one by one in a turn at most: the lane waits meanwhile."""

log = structlog.get_logger()


@dataclass(slots=True)
class HeldTargets:
    """Catches up held targets of this worker's lanes, one after another.

    Attributes:
        kafka: Kafka clusters by name.
        home: Name of the node's own.
        lanes: The lanes.
    """

    kafka: Mapping[str, KafkaCluster]
    home: str
    lanes: Lanes
    _active: TargetCatchUp | None = None
    _opening: Opening[TargetPlan] | None = None
    _tried_ms: dict[TargetKey, int] = field(default_factory=dict)
    _suspects: dict[TargetKey, Suspect] = field(default_factory=dict)
    _displacing: Displacing = field(init=False)

    def __post_init__(self) -> None:
        """Have what is full pushed out beside what is held: both need the lane's second writer."""
        self._displacing = Displacing(self.kafka[self.home], self.lanes)

    @property
    def is_active(self) -> bool:
        """Whether it has the lane's second writer just now."""
        is_ours = self._active is not None or self._opening is not None
        return is_ours or self._displacing.is_active

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for what a catch-up needs, or for a commit."""
        is_busy = self._active is not None and self._active.is_waiting
        return self._opening is not None or is_busy or self._displacing.is_waiting

    def step(self, now_ms: int) -> Iterator[Input]:
        """Write some more of what is held; yield what commits of the lane report."""
        if self._active is not None and not self._is_valid(self._active):
            self._leave()
        if self._active is None and self._opening is None:
            self._displacing.step()
        if self._active is not None and self._others_wait(self._active, now_ms):
            self.give_way(now_ms)
        tried = self._tried
        try:
            if not self.is_active:
                for lane, target in self._due(now_ms):
                    tried = lane.number, target
                    self._tried_ms[tried] = now_ms
                    plan = TargetPlan(self.kafka, self.lanes, lane, target)
                    self._opening = Opening(self.kafka[self.home], self.lanes, plan)
                    break
            if self._opening is not None:
                self._open(self._opening, now_ms)
            for _ in range(1 if self._active is None or not self._is_alone else ALONE_A_TURN):
                if self._active is not None and self.lanes.owns(self._active.again.lane):
                    yield from self._go_on(self._active, now_ms)
        except (TransportError, PoisonError) as error:
            target = "" if tried is None else tried[1]
            log.warning("target.still_held", target=target, fault=str(error))
            if tried is not None:
                # The failure itself may have taken as long as it is to rest.
                self._tried_ms[tried] = self.lanes.clock.now_ms()
            if isinstance(error, TransportError):
                # It may have been deleted while no lane wrote it.
                self.lanes.refusals.topics.update(dict.fromkeys(error.topics))
            self._leave()

    @property
    def _tried(self) -> TargetKey | None:
        """What is being written, or opened."""
        if self._active is not None:
            return self._active.key
        return None if self._opening is None else self._opening.plan.key

    def give_way(self, now_ms: int) -> None:
        """Let others have their turn, if what is being written has had its share."""
        active = self._active
        if active is None or active.is_waiting or now_ms - active.began_ms < SHARE_MS:
            return
        log.info("target.gives_way", target=active.target, lane=active.again.lane.number)
        self._tried_ms[active.key] = now_ms
        self._leave()

    def _others_wait(self, active: TargetCatchUp, now_ms: int) -> bool:
        due = ((lane.number, target) for lane, target in self._due(now_ms))
        return any(key != active.key for key in due)

    @property
    def _is_alone(self) -> bool:
        return self._active is not None and self._active.key in self._suspects

    def _may_go_on(self, lane: Lane, target: str) -> bool:
        is_held = lane.holds_target(target)
        is_out = (lane.number, target) in self.lanes.full
        is_out = is_out or self._is_closed(lane, target)
        return self.lanes.owns(lane) and is_held and not is_out

    def _is_valid(self, active: TargetCatchUp) -> bool:
        """Return whether a catch-up still is what its target needs.

        One whose endpoint was subscribed again meanwhile, or ended, would write what nobody is
        owed, or leave out what somebody is. One of whose sources the lane has let go, since its
        link was removed, would send on a chain that the lane keeps itself again.
        """
        lane, target, held = active.again.lane, active.target, active.again.lane.positions.holds
        keys = {hold_key(lane, target, source) for source in active.again.sources}
        is_same = endpoint_of(lane, target) == active.endpoint and keys <= held.next(target).keys()
        return self._may_go_on(lane, target) and is_same

    def _is_closed(self, lane: Lane, target: str) -> bool:
        """Return whether a look has found that nothing can be written there now."""
        unwritable = self.lanes.refusals.unwritable
        return bool(unwritable) and target in unwritable.of_lane(lane.number, lane.lanes)

    def close(self) -> None:
        """Stop; whoever takes the lanes goes on."""
        self._displacing.close()
        self._leave()

    def _leave(self) -> None:
        for one in (self._active, self._opening):
            if one is not None:
                one.close()
        if self._active is not None:
            self.lanes.stand_still(self._active.again.lane, for_now=False)
            if self._active.is_due_again:
                del self._tried_ms[self._active.key]
        self._active = self._opening = None

    def _due(self, now_ms: int) -> Iterator[tuple[Lane, str]]:
        for lane in self.lanes.owned.values():
            if lane.is_learning:
                continue  # it would route by less than what is owed
            for target in lane.held_targets:
                key = (lane.number, target)
                if key in self.lanes.full or self._is_closed(lane, target):
                    continue
                tried = self._tried_ms.get(key, -RETRY_MS)
                if now_ms - tried >= RETRY_MS and now_ms - lane.taken_ms >= RETRY_MS:
                    yield lane, target

    # -- beginning ------------------------------------------------------------------------

    def _open(self, opening: Opening[TargetPlan], now_ms: int) -> None:
        """Go on opening; begin if all is open."""
        opened, plan = opening.step(now_ms), opening.plan
        if opening.is_vain:
            self._leave()
        elif opened is not None:
            is_same = plan.hold == plan.lane.positions.holds.number(plan.target)
            if not is_same or not self._may_go_on(plan.lane, plan.target):
                self._leave()
                return
            self._opening = None
            home = self.kafka[self.home]
            self._active = TargetCatchUp.begin(plan, opened, home, self._suspects, now_ms)

    # -- going on -------------------------------------------------------------------------

    def _go_on(self, active: TargetCatchUp, now_ms: int) -> Iterator[Input]:
        if not active.is_waiting:
            yield from active.read()
            if self._active is not active or not self._is_valid(active):
                return  # what a commit told has changed the topology meanwhile, or ended the lane
        active.go_on(now_ms)
        if active.is_over:
            self._leave()
