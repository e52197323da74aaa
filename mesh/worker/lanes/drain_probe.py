"""Probes whether anything is on its way to a worker's lanes, while all sources hold. Spec: K28."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from mesh.errors import TransportError
from mesh.lane.lane import Lane
from mesh.model.control import NEVER, Version
from mesh.model.inputs import DrainStepDone
from mesh.model.links import HOLD, SWITCH
from mesh.transport.port import BEGINNING, TopicPartition
from mesh.worker.lanes.owned import Lanes

ASK_MS = 200
"""Time between two requests to a Kafka cluster that has not answered."""


_Ends = tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, str]]
"""Where partitions end, and in which Kafka cluster they are."""


@dataclass(slots=True)
class DrainProbe:
    """Performs for one worker, step by step, the probe by which an open link gives way.

    A probe asks where all outboxes end, including what open transactions hide, and is done when
    the lanes have routed all of that. If outboxes still end where they ended in the previous
    probe, nothing came in between. What a lane holds for a target, has requested again, or no
    longer reads counts as being on its way too.
    """

    lanes: Lanes
    _asked: Version = NEVER
    _ends: Mapping[TopicPartition, int] | None = None
    _before: Mapping[TopicPartition, int] | None = None
    _told: Version = NEVER
    _owned: dict[int, int] = field(default_factory=dict)
    _asked_ms: int = -ASK_MS
    _kafka: Mapping[TopicPartition, str] = field(default_factory=dict)

    def follow(self, now_ms: int) -> Iterator[DrainStepDone]:
        """Do the current step; report once that it is done.

        Must be called when everything that was read has been routed.
        """
        reply = self.lanes.machine.probing.reply
        if not HOLD <= reply.asked < SWITCH:
            self._forget()
            return
        owned = {number: lane.progress.epoch for number, lane in self.lanes.owned.items()}
        asked = (reply.number, reply.asked)
        if asked != self._asked or owned != self._owned:
            follows = owned == self._owned and asked == (self._asked[0], self._asked[1] + 1)
            before = self._ends if follows else None
            self._forget()
            self._asked, self._owned, self._before = asked, owned, before
        if self._told == asked:
            return
        if not self.lanes.sources.gate.holding:
            return
        if reply.asked == HOLD:
            self._told = asked
            yield DrainStepDone(*asked)
        elif self._has_passed(now_ms):
            self._told = asked
            yield DrainStepDone(
                *asked, is_idle=self._before is not None and self._ends == self._before
            )

    def _has_passed(self, now_ms: int) -> bool:
        lanes = self.lanes.owned
        if self._ends is None:
            if now_ms - self._asked_ms < ASK_MS:
                return False
            key = ("drain", self._asked, *self._owned.items())
            try:
                found = self.lanes.sources.questions.answer(key, self._asking_for_ends())
            except TransportError:
                self._asked_ms = now_ms
                return False
            if found is None:
                return False
            self._ends, self._kafka = found
        passed = [
            self._is_routed(lanes[at.partition % self.lanes.count], at, end)
            for at, end in self._ends.items()
        ]  # query each of them: what does not exist yet is watched from now on
        outboxes = self._outboxes()
        owes = (
            lane.holds_any or any(at.topic in outboxes for at, _ in lane.progress.gaps)
            for lane in lanes.values()
        )
        return all(passed) and not any(owes)

    def _outboxes(self) -> Mapping[str, str]:
        """Return the outboxes that may still bring something, and their Kafka clusters."""
        learner = self.lanes.sources.learner
        shut = learner.shut - learner.router.draining.keys()
        return {
            topic.name: topic.kafka
            for topic in self.lanes.sources.topics
            if topic.link is not None and topic.link.neighbour not in shut
        }

    def _asking_for_ends(self) -> Callable[[], _Ends]:
        """Return a call that asks where the lanes' outboxes end, hidden records included."""
        sources = self.lanes.sources
        outboxes: dict[str, list[str]] = {}
        for name, kafka in self._outboxes().items():
            outboxes.setdefault(kafka, []).append(name)
        numbers, count = frozenset(self.lanes.owned), self.lanes.count

        def ask() -> _Ends:
            ends: dict[TopicPartition, int] = {}
            read_in: dict[TopicPartition, str] = {}
            for kafka, names in outboxes.items():
                admin = sources.admins[kafka]
                places = [
                    TopicPartition(name, partition)
                    for name, info in admin.describe(names).items()
                    for partition in range(info.partitions)
                    if partition % count in numbers
                ]
                ends |= admin.ends(places) if places else {}
                read_in |= dict.fromkeys(places, kafka)
            return ends, read_in

        return ask

    def _is_routed(self, lane: Lane, at: TopicPartition, end: int) -> bool:
        sources = self.lanes.sources
        if end <= max(0, lane.position(at)):
            return True
        if at not in lane.sources or not sources.is_read(at):
            return False
        # Markers of transactions are behind the last record, where no lane comes.
        sources.intake.watch(self._kafka[at], at)
        return sources.intake.positions.get(at, BEGINNING) >= end

    def _forget(self) -> None:
        if self._ends is not None:
            for at in self._ends:
                self.lanes.sources.intake.unwatch(at)
        self._asked = self._told = NEVER
        self._ends = self._before = None
