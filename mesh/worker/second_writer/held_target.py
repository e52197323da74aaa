"""One held target is written alone, from where it was left off, until it meets the lane. Spec: K20.

Records that it refuses for their content, not for the target's state, are found one by one and
quarantined.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from mesh.core.local_links import LocalLink
from mesh.errors import TransportRecordError
from mesh.lane.batch import Batch
from mesh.lane.lane import Lane
from mesh.lane.messages.gaps import announce
from mesh.lane.progress import Progress
from mesh.lane.run import Run
from mesh.lane.sources import Source
from mesh.lane.target_holds import endpoint_of, hold_key, is_met, link_of, release, sources_of
from mesh.model.facts import Fact, Held, target_fact
from mesh.model.frames import position_in_chain
from mesh.model.inputs import Input
from mesh.transport.port import KafkaCluster, Writer
from mesh.wire.keys import fact_key
from mesh.worker.lanes.owned import Lanes
from mesh.worker.lanes.second_writer import open_second_writer_of, second_progress
from mesh.worker.process.commits import PendingCommit
from mesh.worker.process.errands import Errand, Steps
from mesh.worker.process.transactions import transact
from mesh.worker.second_writer.catching_up import CHUNK, CatchUp, CatchUpStart, is_reachable
from mesh.worker.second_writer.opening import OpenedCatchUp, Proof
from mesh.worker.second_writer.quarantine import Suspect, Trial, keep_aside
from mesh.worker.second_writer.routing_again import account, catch_up_lane, route_again

TargetKey = tuple[int, str]
"""A lane's number, and the topic of a target that the lane holds."""

ALONE_A_TURN = 20
"""Records that are written one by one in a turn at most: the lane waits meanwhile."""

log = structlog.get_logger()


@dataclass(slots=True)
class DueTarget:
    """A target that is to be caught up.

    Attributes:
        kafka: Kafka clusters by name.
        lanes: All lanes of the worker.
        lane, target: The lane, and the target it holds.
        hold: Number of the hold, once the position to write from is known.
        again: What will read the sources, likewise.
        needless: Keys of what earlier catch-ups recorded and nobody needs any more, likewise.
    """

    kafka: Mapping[str, KafkaCluster]
    lanes: Lanes
    lane: Lane
    target: str
    hold: int = 0
    needless: Sequence[bytes] = ()
    again: CatchUp = field(init=False)

    @property
    def key(self) -> TargetKey:
        """The target, with its lane."""
        return self.lane.number, self.target

    def begin(self, told: Sequence[Fact]) -> Steps[CatchUpStart] | None:
        """Learn how far the target is written; read on from there, unless that is everything."""
        lane, target = self.lane, self.target
        lane.hear_catch_ups(told)
        self.needless = list(needless_keys(lane, told))
        if not lane.holds_target(target):
            return None
        self.hold = lane.progress.holds.number(target)
        sources = _readable(self.lanes, lane, target)
        if not sources and not is_met(lane, target):
            log.info("target.waits", target=target, lane=lane.number)
            return None
        self.again = CatchUp(self.lanes, lane, sources)
        written = lane.progress.holds.next(target)
        begins = {one.at: written.get(hold_key(lane, target, one), 0) for one in sources}
        return self.again.opening(self.kafka, begins, "held")


@dataclass(slots=True)
class _Narrowing:
    """What is known of records that a target refuses, while the next writer is being opened.

    Attributes:
        trial: Finds them, and leaves them out.
        errand: Opens the next writer, or None if there is one.
        proof: Once committed, shows that the lane was not taken before that writer was opened.
    """

    trial: Trial
    errand: Errand[Writer] | None = None
    proof: Proof | None = None


@dataclass(slots=True)
class TargetCatchUp:
    """One held target being written.

    Attributes:
        home: The node's own Kafka cluster.
        target: Its topic.
        hold: Number of the hold; 0 if the lane reads no source yet.
        again: Reads the lane's sources.
        writer: Writes.
        written: Chains of the target and of the sources as they were read for it.
        link, endpoint: The target's owner: one of the two.
        began_ms: When it began to write.
        suspects: Targets that refused a record, and the records in question.
        needless: Keys that the next write removes: what they held is of holds that are over.
        is_over: Whether nothing is left to do with what was opened.
        is_due_again: Whether the next catch-up is to begin at once.
        known: The same as `written` after the write under way has finished.
        facts: What that write records.
    """

    home: KafkaCluster
    target: str
    hold: int
    again: CatchUp
    writer: Writer
    written: Progress
    link: LocalLink | None
    endpoint: str
    began_ms: int
    suspects: dict[TargetKey, Suspect]
    needless: Sequence[bytes] = ()
    is_over: bool = False
    is_due_again: bool = False
    known: Progress = field(init=False)
    facts: Sequence[Fact] = ()
    _pending: PendingCommit = field(default_factory=PendingCommit)
    _narrowing: _Narrowing | None = None

    @staticmethod
    def begin(
        due: DueTarget,
        opened: OpenedCatchUp,
        home: KafkaCluster,
        suspects: dict[TargetKey, Suspect],
        now_ms: int,
    ) -> TargetCatchUp:
        """Begin to read for a target, and to write it, with what was opened."""
        lane, target, again = due.lane, due.target, due.again
        again.begin(opened.begins)
        sent = lane.progress.sent
        keys = [hold_key(lane, target, source) for source in again.sources]
        known = lane.progress.of_target({key: sent[key] for key in keys if key in sent})
        log.info("target.catching_up", target=target, lane=lane.number)
        of = link_of(lane, target), endpoint_of(lane, target)
        return TargetCatchUp(
            *(home, target, due.hold, again, opened.writer, known, *of, now_ms, suspects),
            needless=due.needless,
        )

    @property
    def key(self) -> TargetKey:
        """The target, with its lane."""
        return self.again.lane.number, self.target

    @property
    def lane(self) -> Lane:
        """The lane whose sources are read again."""
        return self.again.lane

    @property
    def steps_a_turn(self) -> int:
        """How often it goes on in a turn; more often record by record."""
        return ALONE_A_TURN if self.key in self.suspects else 1

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for another writer, or for a commit."""
        return self._narrowing is not None or self._pending.is_any

    def close(self) -> None:
        """Release what it reads and writes with."""
        self.again.close()
        self._pending.close(self.writer)
        if self._narrowing is not None and self._narrowing.errand is not None:
            self._narrowing.errand.call_off()

    def read(self) -> Iterator[Input]:
        """Read what is to be written next; yield what commits of the lane report."""
        yield from self.again.read(1 if self.key in self.suspects else CHUNK)

    def go_on(self, now_ms: int) -> None:
        """Write what was read, or take the outcome of that.

        Raises:
            TransportError: It was not written.
            PoisonError: A record breaks the routing.
        """
        if self._pending.is_any:
            self._end_commit(now_ms)
            return
        again = self.again
        if self._narrowing is not None and not self._open_next_writer(self._narrowing, now_ms):
            again.is_met = False  # the lane goes on in the meantime
            return
        if again.is_met and self._has_new_source():
            self.is_over = self.is_due_again = True  # the next catch-up reads that source too
        elif again.is_met or again.lost or any(again.records.values()):
            self._begin_to_write(now_ms)
            self._end_commit(now_ms)

    def _open_next_writer(self, narrowing: _Narrowing, now_ms: int) -> bool:
        """Return whether there is a writer that would fence no other owner of the lane."""
        if narrowing.errand is None and narrowing.proof is None:
            return True
        self.again.is_met = False  # the lane goes on meanwhile
        if narrowing.errand is not None:
            if not narrowing.errand.has_ended():
                return False
            self.writer, narrowing.errand = narrowing.errand.result(), None
            narrowing.proof = Proof.begin(self.again.lane, now_ms)
        if narrowing.proof is not None and not narrowing.proof.is_given:
            return False
        narrowing.proof = None
        return True

    def _begin_to_write(self, now_ms: int) -> None:
        """Begin to write what was read, except what the target refuses for good."""
        again, lane, suspect = self.again, self.again.lane, self.suspects.get(self.key)
        limit = again.lanes.topology.quarantine_after
        if self._narrowing is None and suspect is not None and suspect.tries + 1 >= limit:
            neighbour = self.link.neighbour if self.link is not None else ""
            trial = Trial(self.target, lane.node, lane.names, self.endpoint, neighbour)
            self._narrowing = _Narrowing(trial)
        self.known = self.written.of_target(self.written.sent)
        batch, self.facts = self._decide(now_ms)
        transaction = partial(transact, self.writer, batch.rows)
        if self._narrowing is not None:
            transaction = partial(self._narrowing.trial.transact, self.writer, batch.rows)
        self._pending.begin(again.lanes.commits, transaction)

    def _end_commit(self, now_ms: int) -> None:
        """Take the outcome of a commit, if it is known; the lane waits for the last one."""
        again, lane = self.again, self.again.lane
        if not self._pending.is_through:
            again.lanes.stand_still(lane, for_now=again.is_met)
            return
        try:
            self._pending.end()
        except TransportRecordError as error:
            again.lanes.stand_still(lane, for_now=False)
            if error.topics != (self.target,):
                raise
            if self._narrowing is None or not self._narrowing.trial.narrow():
                self._suspect()
                raise
            self._narrowing.trial.refusal = error
            # The client library may lose count of what a refused request held, and fail in the next
            # transaction too: a new writer starts over.
            self.writer.close()
            self._narrowing.errand = again.lanes.errands.begin(_opening_writer(lane, self.home))
            return
        self._take_written(now_ms)

    def _take_written(self, now_ms: int) -> None:
        """Record what is written; the lane takes the target back if that is everything."""
        again, lane = self.again, self.again.lane
        self.written = self.known
        self.needless = ()
        again.lost.clear()
        lane.hear_catch_ups(self.facts)
        if self._narrowing is not None:
            for one in self._narrowing.trial.aside:
                log.error("record.quarantined", target=self.target, identity=one.identity)
            self._narrowing = None
        suspect = self.suspects.get(self.key)
        if suspect is not None and suspect.passed():
            del self.suspects[self.key]
        if again.is_met:
            self.suspects.pop(self.key, None)
            if is_met(lane, self.target):
                release(lane, self.target, now_ms)
                log.warning("target.released", target=self.target, lane=lane.number)
            self.is_over = True

    def _has_new_source(self) -> bool:
        """Return whether the lane has left out a new source that is not read here.

        Its records would count as written when the target is released.
        """
        again = self.again
        present = _readable(again.lanes, again.lane, self.target)
        known = {source.identity for source in (*again.sources, *again.left_out)}
        return any(source.identity not in known for source in present)

    def _suspect(self) -> None:
        """Note that a record was refused for its content; writing one by one shows which. R12."""
        suspect = self.suspects.get(self.key)
        if suspect is None:
            self.suspects[self.key] = Suspect()
            self.is_due_again = True
            return
        for source in self.again.sources:
            for record in self.again.records.get(source.at, ()):
                suspect.refused(source.at, record.offset())

    def _decide(self, now_ms: int) -> tuple[Batch, Sequence[Fact]]:
        """Return what to write of the records read, and how far the target is written then."""
        again, lane, known = self.again, self.again.lane, self.known
        catch_up = catch_up_lane(lane, known, link=self.link, endpoint=self.endpoint)
        batch = catch_up.open(now_ms)
        reached: dict[Source, int] = {}
        for source in again.sources:
            for lost in again.lost:
                if (lost.topic, lost.partition) == (source.at.topic, source.at.partition):
                    goes_on = position_in_chain(source.generation, lost.next)
                    announce(Run(catch_up, batch, source), lost, goes_on)
            records = again.records.get(source.at, [])
            route_again(catch_up, source, records, again.lanes.poison, now_ms)
            if records:
                reached[source] = records[-1].offset() + 1
        if (narrowing := self._narrowing) is not None:
            narrowing.trial.replace_in(batch.rows)
            for source in reached:
                run = Run(catch_up, batch, source)
                keep_aside(narrowing.trial, run, again.records[source.at][-1])
        if again.is_met:
            # This includes stopped sources: their stop covers the rest.
            reached = {one: max(0, lane.committed_position(one.at)) for one in again.sources}
        facts = list(self._told(known, reached))
        place = second_progress(lane)
        for fact in facts:
            batch.write(place, lane.encoded(fact), fact_key(fact.key))
        for key in self.needless:
            batch.write(place, None, key)
        account(catch_up, batch, repair=False)
        return batch, facts

    def _told(self, known: Progress, reached: Mapping[Source, int]) -> Iterator[Fact]:
        """Yield how far the target is written for each source."""
        lane = self.again.lane
        for source, offset in reached.items():
            key = hold_key(lane, self.target, source)
            yield Held(*key, self.hold, offset)
            if self.link is not None and key in known.sent:
                yield lane.sent(key, known.sent[key], 0)


def needless_keys(lane: Lane, told: Sequence[Fact]) -> Iterator[bytes]:
    """Yield the keys of what catch-ups recorded of holds that are over: nobody reads it again.

    What they say counts for the hold of its number alone, and only together with the lane's own
    word of it. That this one has ended must be committed: until then whoever takes the lane needs
    both. What movers of queues have sent stands there as well, and of nothing that was ever held.

    Args:
        lane: Whose catch-ups: it has proven that it is still owned since they were read.
        told: All that was recorded beside it.
    """
    batches = [lane.batch, None if lane.closing is None else lane.closing.batch]
    uncommitted = {key for batch in batches if batch is not None for key in batch.facts}
    over = {
        (one.at, one.source)
        for one in told
        if isinstance(one, Held)
        and one.key not in uncommitted
        and all(own.key != one.key for own in lane.progress.holds.kept(one.at.topic))
    }
    for one in map(target_fact, told):
        if one is not None and (one.at, one.source) in over:
            yield fact_key(one.key)


def _readable(lanes: Lanes, lane: Lane, target: str) -> Sequence[Source]:
    """Return the readable sources of which a held target may lack something.

    The target waits for the others only as long as it lacks something of them.
    """
    return [one for one in sources_of(lane, target) if is_reachable(lanes, one)]


def _opening_writer(lane: Lane, kafka: KafkaCluster) -> Steps[Writer]:
    yield
    return open_second_writer_of(lane, kafka)
