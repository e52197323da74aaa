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

from mesh.codec.keys import fact_key
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
from mesh.lane.kept import kept_in
from mesh.lane.lane import Lane, Source
from mesh.lane.messages.gaps import announce, came_before
from mesh.lane.positions import Positions
from mesh.model.facts import ENDED, Fact, Held
from mesh.model.frames import position_in_chain
from mesh.model.inputs import Input
from mesh.runtime.background.catching_up import (
    CHUNK,
    Begins,
    CatchUp,
    account,
    caught_up_partition,
    route_again,
    shadow_of,
)
from mesh.runtime.background.displacing import Displacing
from mesh.runtime.background.quarantine import Trial, keep_aside
from mesh.runtime.lanes.owned import Lanes
from mesh.runtime.process.commits import Pending
from mesh.runtime.process.errands import Errand, Steps
from mesh.runtime.process.recall import Recall
from mesh.runtime.process.transactions import transact
from mesh.transport.port import KafkaCluster, TopicPartition, Writer

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
    proof: Batch | None = None


@dataclass(slots=True)
class _Second:
    """The second writer of a lane, and what it and its predecessors have told before."""

    writer: Writer
    told: Sequence[Fact] = ()

    def close(self) -> None:
        self.writer.close()


@dataclass(slots=True)
class _Opening:
    """A catch-up that is being opened.

    Attributes:
        lane, target: What for.
        errand: Opens the second writer.
        second: What that has brought.
        proof: Once it is committed, the lane was not taken before the second writer was opened.
        hold: Number of the hold then.
        again: Is to read.
        begins: Opens what that needs.
    """

    lane: Lane
    target: str
    errand: Errand[_Second]
    second: _Second | None = None
    proof: Batch | None = None
    hold: int = 0
    again: CatchUp | None = None
    begins: Errand[Begins] | None = None

    @property
    def key(self) -> tuple[int, str]:
        return self.lane.number, self.target

    def close(self) -> None:
        """Release what was opened, and what is being opened once it is."""
        self.errand.call_off()
        if self.begins is not None:
            self.begins.call_off()


@dataclass(slots=True)
class Suspect:
    """A target that refused a record for what it is: records are written one by one. Spec: R12.

    Attributes:
        at, offset: The source record refused last.
        tries: How often it was, in a row.
        left: So many more are written alone, then many at once as ever.
    """

    at: TopicPartition | None = None
    offset: int = -1
    tries: int = 0
    left: int = CHUNK

    def refused(self, at: TopicPartition, offset: int) -> None:
        """Take note that a source record was refused alone."""
        self.tries = self.tries + 1 if (at, offset) == (self.at, self.offset) else 1
        self.at, self.offset = at, offset

    def passed(self) -> bool:
        """Take note that a record was written; say whether that is enough."""
        self.tries, self.at = 0, None
        self.left -= 1
        return self.left <= 0


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
    _opening: _Opening | None = None
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
        under_way = self._active or self._opening
        tried = under_way.key if under_way is not None else None
        try:
            if not self.is_active:
                for lane, target in self._due(now_ms):
                    tried = lane.number, target
                    self._tried_ms[tried] = now_ms
                    self._opening = _Opening(lane, target, self._open_second(lane))
                    break
            if self._opening is not None:
                self._active = self._open(self._opening, now_ms)
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
                self.lanes.refusing.update(dict.fromkeys(error.topics))
            self._leave()

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
        closed = self.lanes.closed
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

    def _open(self, opening: _Opening, now_ms: int) -> _CatchUp | None:
        """Go on opening; return the catch-up if all is open.

        The writer comes first: after that, what progress says of former tries is final. Spec: R3.
        Then the lane proves that it is still owned: a former owner who has not heard of it would
        end holds by its own position, which the present one has passed.
        """
        if opening.second is None and opening.errand.has_ended():
            opening.second = opening.errand.result()
            opening.proof = _proof(opening.lane, now_ms)
        if not self.lanes.owns(opening.lane):
            self._leave()
            return None
        if opening.proof is not None and _is_committed(opening.lane, opening.proof):
            opening.proof = None
            if not self._begin(opening, now_ms):
                self._leave()
                return None
        if opening.begins is None or not opening.begins.has_ended():
            return None
        begins, lane, target = opening.begins.result(), opening.lane, opening.target
        again, second, hold = opening.again, opening.second, lane.positions.holds.number(target)
        if again is None or second is None:
            self._leave()
            return None
        if hold != opening.hold or not self._may_go_on(lane, target):
            self._leave()
            return None
        self._opening = None
        again.begin(begins)
        link = link_of(lane, target)
        sent = lane.positions.sent
        keys = [hold_key(lane, target, source) for source in again.sources]
        known = lane.positions.of_target({key: sent[key] for key in keys if key in sent})
        log.info("target.catching_up", target=target, lane=lane.number)
        endpoint = endpoint_of(lane, target)
        return _CatchUp(target, hold, again, second.writer, known, link, endpoint, now_ms)

    def _begin(self, opening: _Opening, now_ms: int) -> bool:
        """Learn how far the target is written; say whether more is to be, and can be now."""
        lane, target = opening.lane, opening.target
        if opening.second is None or not self.lanes.owns(lane):
            return False
        for fact in opening.second.told:
            lane.positions.apply_catch_up(fact)
        tell_ended(lane, now_ms)
        if not lane.leaves_out(target):
            return False
        opening.hold = lane.positions.holds.number(target)
        sources = sources_of(lane, target)
        if sources is None:
            log.info("target.waits", target=target, lane=lane.number)
            return False  # a source that cannot be read now: its Kafka cluster does not answer
        opening.again = CatchUp(self.lanes, lane, sources)
        written = lane.positions.holds.next(target)
        begins = {at.at: written.get(hold_key(lane, target, at), 0) for at in sources}
        steps = opening.again.opening(self.kafka, begins, "held")
        opening.begins = self.lanes.errands.begin(steps)
        return True

    def _open_second(self, lane: Lane) -> Errand[_Second]:
        place = TopicPartition(lane.names.progress(lane.node), caught_up_partition(lane))
        name, id_ = f"held-{lane.number}", lane.names.held_transactions(lane.node, lane.number)
        steps = _opening_second(self.kafka[self.home], self.lanes.recall, place, name, id_)
        return self.lanes.errands.begin(steps)

    def _open_writer(self, lane: Lane) -> Errand[Writer]:
        name, id_ = f"held-{lane.number}", lane.names.held_transactions(lane.node, lane.number)
        return self.lanes.errands.begin(_opening_writer(self.kafka[self.home], name, id_))

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
            active.narrowing.proof = _proof(lane, now_ms)
        if active.narrowing is not None and (proof := active.narrowing.proof) is not None:
            again.is_met = False
            if not _is_committed(lane, proof):
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
                    came = came_before(shadow, source)
                    goes_on = position_in_chain(source.generation, lost.next)
                    announce(shadow, batch, source, lost, came, goes_on)
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
        place = TopicPartition(lane.names.progress(lane.node), caught_up_partition(lane))
        for fact in facts:
            batch.write(place, lane.encoded(fact), fact_key(fact.key))
        account(shadow, batch, repair=False)
        return batch, facts


def _proof(lane: Lane, now_ms: int) -> Batch:
    """Have a lane commit soon: none but its owner can.

    Until then nobody had taken it, and who takes it later fences what goes on beside it. K16.
    """
    batch = lane.open(now_ms)
    batch.is_awaited = True
    return batch


def _is_committed(lane: Lane, batch: Batch) -> bool:
    """Say whether a lane that is owned still has committed this."""
    closing = lane.closing
    return lane.batch is not batch and (closing is None or closing.batch is not batch)


def _told(active: _CatchUp, known: Positions, reached: Mapping[Source, int]) -> Iterator[Fact]:
    """Yield how far a target is written of each source."""
    for source, offset in reached.items():
        key = hold_key(active.again.lane, active.target, source)
        yield Held(*key, active.hold, offset)
        if active.link is not None and key in known.sent:
            yield active.again.lane.sent(key, known.sent[key], 0)


def _opening_writer(kafka: KafkaCluster, name: str, id_: str) -> Steps[Writer]:
    yield
    return kafka.writer(name, id_)


def _opening_second(
    kafka: KafkaCluster, recall: Recall, place: TopicPartition, name: str, id_: str
) -> Steps[_Second]:
    yield
    writer = kafka.writer(name, id_)
    try:
        yield
        return _Second(writer, list(kept_in(recall.records(place)).facts.values()))
    except BaseException:
        writer.close()
        raise
