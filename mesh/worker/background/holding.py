"""A target that cannot be written is held: the lane goes on for the others. Spec: K20.

An endpoint's or outbox's topic may refuse records for long: a right taken away, a limit lowered, a
partition without a leader. After some tries the lane leaves that target out; a catch-up with
transactions of its own tries to write it alone, from where it was left, until it meets the lane.
Its writer and its readers are opened beside the loop: the brokers in question may not answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from mesh.core.routing import LocalLink
from mesh.errors import PoisonError, TransportError, TransportRecordError
from mesh.lane.batch import Batch
from mesh.lane.held import (
    endpoint_of,
    hold_key,
    link_of,
    release,
    sources_of,
    tell_ended,
)
from mesh.lane.lane import Lane, Source
from mesh.lane.messages.gaps import announce, own_provenance
from mesh.lane.positions import Positions
from mesh.model.facts import ENDED, Fact, Held
from mesh.model.frames import position_in_chain
from mesh.model.inputs import Input
from mesh.transport.port import KafkaCluster, Writer
from mesh.wire.keys import fact_key
from mesh.worker.background.catching_up import (
    CHUNK,
    Begins,
    CatchUp,
    account,
    route_again,
    shadow_of,
)
from mesh.worker.background.displacing import Displacing
from mesh.worker.background.opening import Opened, Opening, Proof
from mesh.worker.background.quarantine import Suspect, Trial, keep_aside
from mesh.worker.lanes.owned import Lanes
from mesh.worker.lanes.second_writer import open_second_writer_of, second_progress
from mesh.worker.process.commits import Pending
from mesh.worker.process.errands import Errand, Steps
from mesh.worker.process.transactions import transact

RETRY_MS = 5_000
"""How long a catch-up that failed rests."""

SHARE_MS = 30_000
"""For so long a catch-up goes on although others wait: under load it may never come as far as its
lane. It goes on from there when all of them have had their turn."""

ALONE_A_TURN = 20
"""Records that are written one by one in a turn at most: the lane waits meanwhile."""

log = structlog.get_logger()


@dataclass(slots=True)
class _CatchUp:
    """One held target being written.

    Attributes:
        target: Its topic.
        hold: Number of the hold; 0 if the lane reads no source yet.
        again: Reads the lane's sources.
        writer: Writes.
        written: Chains of the target and of the sources as they were read for it.
        began_ms: When it began to write.
        narrowing: Finds out which records are refused, if some are.
        pending: The commit under way.
        known: The same as `written` once that is through.
        facts: What it tells.
    """

    target: str
    hold: int
    again: CatchUp
    writer: Writer
    written: Positions
    link: LocalLink | None
    endpoint: str
    began_ms: int
    narrowing: _Narrowing | None = None
    pending: Pending = field(default_factory=Pending)
    known: Positions = field(init=False)
    facts: Sequence[Fact] = ()

    @property
    def key(self) -> tuple[int, str]:
        return self.again.lane.number, self.target

    def close(self) -> None:
        self.again.close()
        self.pending.close(self.writer)
        if self.narrowing is not None and self.narrowing.errand is not None:
            self.narrowing.errand.call_off()


@dataclass(slots=True)
class _Narrowing:
    """What is known of records that a target refuses, while the next writer is being opened.

    Attributes:
        trial: Finds them, and leaves them out.
        errand: Opens the next writer, or None if there is one.
        proof: Once it is committed, the lane was not taken before that one was opened.
    """

    trial: Trial
    errand: Errand[Writer] | None = None
    proof: Proof | None = None


@dataclass(slots=True)
class _Plan:
    """A target that is to be caught up.

    Attributes:
        kafka: Kafka clusters by name.
        lanes: All lanes of the worker.
        lane, target: Whose, and which.
        hold: Number of the hold, once it is known from where on it is to be written.
        again: Is to read the sources, likewise.
    """

    kafka: Mapping[str, KafkaCluster]
    lanes: Lanes
    lane: Lane
    target: str
    hold: int = 0
    again: CatchUp = field(init=False)

    @property
    def key(self) -> tuple[int, str]:
        return self.lane.number, self.target

    def begin(self, told: Sequence[Fact], now_ms: int) -> Steps[Begins] | None:
        """Learn how far the target is written; read on from there, unless that is all."""
        lane, target = self.lane, self.target
        for fact in told:
            lane.positions.apply_catch_up(fact)
        tell_ended(lane, now_ms)
        if not lane.leaves_out(target):
            return None
        self.hold = lane.positions.holds.number(target)
        sources = sources_of(lane, target)
        if sources is None:
            log.info("target.waits", target=target, lane=lane.number)
            return None  # a source cannot be read now: its Kafka cluster does not answer
        self.again = CatchUp(self.lanes, lane, sources)
        written = lane.positions.holds.next(target)
        begins = {one.at: written.get(hold_key(lane, target, one), 0) for one in sources}
        return self.again.opening(self.kafka, begins, "held")


@dataclass(slots=True)
class Holds:
    """Catches up held targets of this worker's lanes, one after another.

    Attributes:
        kafka: Kafka clusters by name.
        home: Name of the node's own.
        lanes: The lanes.
    """

    kafka: Mapping[str, KafkaCluster]
    home: str
    lanes: Lanes
    _active: _CatchUp | None = None
    _opening: Opening[_Plan] | None = None
    _tried_ms: dict[tuple[int, str], int] = field(default_factory=dict)
    _suspects: dict[tuple[int, str], Suspect] = field(default_factory=dict)
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
        active = self._active
        is_busy = active is not None and (active.narrowing is not None or active.pending.is_any)
        return self._opening is not None or is_busy or self._displacing.is_waiting

    def step(self, now_ms: int) -> Iterator[Input]:
        """Write some more of what is held; yield what commits of the lane tell."""
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
                    plan = _Plan(self.kafka, self.lanes, lane, target)
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
            if tried in self._tried_ms:
                # The failure itself may have taken as long as it is to rest.
                self._tried_ms[tried] = self.lanes.clock.now_ms()
            if isinstance(error, TransportError):
                # It may have been deleted while no lane wrote it.
                self.lanes.refusals.topics.update(dict.fromkeys(error.topics))
            self._leave()

    @property
    def _tried(self) -> tuple[int, str] | None:
        """What is being written, or opened."""
        if self._active is not None:
            return self._active.key
        return None if self._opening is None else self._opening.plan.key

    def give_way(self, now_ms: int) -> None:
        """Let others have their turn, if what is being written has had its share."""
        active = self._active
        if active is None or now_ms - active.began_ms < SHARE_MS:
            return
        if active.narrowing is not None or active.pending.is_any:
            return
        log.info("target.gives_way", target=active.target, lane=active.again.lane.number)
        self._tried_ms[active.key] = now_ms
        self._leave()

    def _others_wait(self, active: _CatchUp, now_ms: int) -> bool:
        due = ((lane.number, target) for lane, target in self._due(now_ms))
        return any(key != active.key for key in due)

    @property
    def _is_alone(self) -> bool:
        return self._active is not None and self._active.key in self._suspects

    def _may_go_on(self, lane: Lane, target: str) -> bool:
        is_held = lane.leaves_out(target)
        is_out = (lane.number, target) in self.lanes.full
        is_out = is_out or self._is_closed(lane, target)
        return self.lanes.owns(lane) and is_held and not is_out

    def _is_valid(self, active: _CatchUp) -> bool:
        """Say whether a catch-up still is what its target needs.

        One whose endpoint was subscribed again meanwhile, or ended, would write what nobody is
        owed, or leave out what somebody is. One of whose sources the lane has let go, since its
        link was removed, would send on a chain that the lane keeps itself again.
        """
        lane, target, held = active.again.lane, active.target, active.again.lane.positions.holds
        keys = {hold_key(lane, target, source) for source in active.again.sources}
        is_same = endpoint_of(lane, target) == active.endpoint and keys <= held.next(target).keys()
        return self._may_go_on(lane, target) and is_same

    def _is_closed(self, lane: Lane, target: str) -> bool:
        """Say whether a look has found that nothing can be written there now."""
        closed = self.lanes.refusals.closed
        lanes = self.lanes.topology.nodes[lane.node].lanes
        return bool(closed) and target in closed.of_lane(lane.number, lanes)

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
        self._active = self._opening = None

    def _due(self, now_ms: int) -> Iterator[tuple[Lane, str]]:
        for lane in self.lanes.owned.values():
            if lane.is_learning:
                continue  # it would route by less than what is owed
            for target in lane.left_out:
                key = (lane.number, target)
                if key in self.lanes.full or self._is_closed(lane, target):
                    continue
                tried = self._tried_ms.get(key, -RETRY_MS)
                if now_ms - tried >= RETRY_MS and now_ms - lane.taken_ms >= RETRY_MS:
                    yield lane, target

    # -- beginning ------------------------------------------------------------------------

    def _open(self, opening: Opening[_Plan], now_ms: int) -> None:
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
            self._active = _begin(plan, opened, now_ms)

    def _open_writer(self, lane: Lane) -> Errand[Writer]:
        return self.lanes.errands.begin(_opening_writer(lane, self.kafka[self.home]))

    # -- going on -------------------------------------------------------------------------

    def _go_on(self, active: _CatchUp, now_ms: int) -> Iterator[Input]:
        again, lane = active.again, active.again.lane
        if active.pending.is_any:
            self._end_commit(active, now_ms)
            return
        if active.narrowing is None:
            yield from again.read(1 if active.key in self._suspects else CHUNK)
            if not self.lanes.owns(lane):
                return
        elif (errand := active.narrowing.errand) is not None:
            again.is_met = False  # the lane goes on meanwhile
            if not errand.has_ended():
                return
            active.writer, active.narrowing.errand = errand.result(), None
            active.narrowing.proof = Proof.begin(lane, now_ms)
        if active.narrowing is not None and (proof := active.narrowing.proof) is not None:
            again.is_met = False
            if not proof.is_given:
                return
            active.narrowing.proof = None
        if again.is_met and self._has_new_source(active):
            del self._tried_ms[active.key]  # the next catch-up reads that one too, at once
            self._leave()
            return
        if again.is_met or again.lost or any(again.records.values()):
            self._begin_to_write(active, now_ms)
            self._end_commit(active, now_ms)

    def _begin_to_write(self, active: _CatchUp, now_ms: int) -> None:
        """Begin to write what was read, without what the target refuses for good."""
        lane, suspect = active.again.lane, self._suspects.get(active.key)
        limit = self.lanes.topology.quarantine_after
        if active.narrowing is None and suspect is not None and suspect.tries + 1 >= limit:
            neighbour = active.link.neighbour if active.link is not None else ""
            trial = Trial(active.target, lane.node, lane.names, active.endpoint, neighbour)
            active.narrowing = _Narrowing(trial)
        active.known = active.written.of_target(active.written.sent)
        batch, active.facts = self._decide(active, now_ms)
        transaction = partial(transact, active.writer, batch.rows)
        if active.narrowing is not None:
            transaction = partial(active.narrowing.trial.transact, active.writer, batch.rows)
        active.pending.begin(self.lanes.commits, transaction)

    def _end_commit(self, active: _CatchUp, now_ms: int) -> None:
        """See what has become of a commit, if that is known; the lane waits for the last."""
        again, lane = active.again, active.again.lane
        if not active.pending.is_through:
            self.lanes.stand_still(lane, for_now=again.is_met)
            return
        try:
            active.pending.end()
        except TransportRecordError as error:
            self.lanes.stand_still(lane, for_now=False)
            if error.topics != (active.target,):
                raise
            if active.narrowing is None or not active.narrowing.trial.narrow():
                self._suspect(active)
                raise
            active.narrowing.trial.refusal = error
            # The client library may lose count of what a refused request held, and fail with
            # the next transaction too: a new writer begins anew.
            active.writer.close()
            active.narrowing.errand = self._open_writer(lane)
            return
        self._take_written(active, now_ms)

    def _take_written(self, active: _CatchUp, now_ms: int) -> None:
        """Take note of what is written; the lane writes the target again if that is all."""
        again, lane = active.again, active.again.lane
        active.written = active.known
        again.lost.clear()
        for fact in active.facts:
            lane.positions.apply_catch_up(fact)
        if active.narrowing is not None:
            for one in active.narrowing.trial.aside:
                log.error("record.quarantined", target=active.target, identity=one.identity)
            active.narrowing = None
        suspect = self._suspects.get(active.key)
        if suspect is not None and suspect.passed():
            del self._suspects[active.key]
        if again.is_met:
            self._suspects.pop(active.key, None)
            release(lane, active.target, now_ms)
            log.warning("target.released", target=active.target, lane=lane.number)
            self._leave()

    @staticmethod
    def _has_new_source(active: _CatchUp) -> bool:
        """Say whether the lane has left out a source that is not read: it came since the opening.

        Its records would be taken for written when the target is released.
        """
        present = sources_of(active.again.lane, active.target)
        if present is None:
            return True  # one that was left out cannot be read just now: it may be that one
        known = {source.identity for source in active.again.sources}
        return any(source.identity not in known for source in present)

    def _suspect(self, active: _CatchUp) -> None:
        """Take note that a record was refused for what it is; which one shows one by one. R12."""
        suspect = self._suspects.get(active.key)
        if suspect is None:
            self._suspects[active.key] = Suspect()
            del self._tried_ms[active.key]
            return
        for source in active.again.sources:
            for record in active.again.records.get(source.at, ()):
                suspect.refused(source.at, record.offset())

    def _decide(self, active: _CatchUp, now_ms: int) -> tuple[Batch, Sequence[Fact]]:
        """Return what is to be written of what was read, and how far the target is written then."""
        again, lane, known = active.again, active.again.lane, active.known
        shadow = shadow_of(lane, known, link=active.link, endpoint=active.endpoint)
        batch = shadow.open(now_ms)
        reached: dict[Source, int] = {}
        for source in again.sources:
            for lost in again.lost:
                if (lost.topic, lost.partition) == (source.at.topic, source.at.partition):
                    provenance = own_provenance(shadow, source)
                    goes_on = position_in_chain(source.generation, lost.next)
                    announce(shadow, batch, source, lost, provenance, goes_on)
            records = again.records.get(source.at, [])
            route_again(shadow, source, records, self.lanes.poison, now_ms)
            if records:
                reached[source] = records[-1].offset() + 1
        if (narrowing := active.narrowing) is not None:
            narrowing.trial.replace_in(batch.rows)
            for source in reached:
                keep_aside(narrowing.trial, shadow, batch, source, again.records[source.at][-1])
        if again.is_met:
            reached = dict.fromkeys(again.sources, ENDED)
        facts = list(_told(active, known, reached))
        place = second_progress(lane)
        for fact in facts:
            batch.write(place, lane.encoded(fact), fact_key(fact.key))
        account(shadow, batch, repair=False)
        return batch, facts


def _begin(plan: _Plan, opened: Opened, now_ms: int) -> _CatchUp:
    """Begin to read for a target, and to write it, with what was opened."""
    lane, target, again = plan.lane, plan.target, plan.again
    again.begin(opened.begins)
    sent = lane.positions.sent
    keys = [hold_key(lane, target, source) for source in again.sources]
    known = lane.positions.of_target({key: sent[key] for key in keys if key in sent})
    log.info("target.catching_up", target=target, lane=lane.number)
    link, endpoint = link_of(lane, target), endpoint_of(lane, target)
    return _CatchUp(target, plan.hold, again, opened.writer, known, link, endpoint, now_ms)


def _told(active: _CatchUp, known: Positions, reached: Mapping[Source, int]) -> Iterator[Fact]:
    """Yield how far a target is written of each source."""
    for source, offset in reached.items():
        key = hold_key(active.again.lane, active.target, source)
        yield Held(*key, active.hold, offset)
        if active.link is not None and key in known.sent:
            yield active.again.lane.sent(key, known.sent[key], 0)


def _opening_writer(lane: Lane, kafka: KafkaCluster) -> Steps[Writer]:
    yield
    return open_second_writer_of(lane, kafka)
