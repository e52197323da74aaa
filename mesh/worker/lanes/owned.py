"""The lanes that a worker owns: taken, routed, committed, dropped. Spec: K14-K18."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from mesh.core.read_positions import outbox_position
from mesh.errors import (
    PoisonError,
    TransportError,
    TransportUnreadableError,
    UnknownVersionError,
)
from mesh.lane.accounts import Accounts
from mesh.lane.cuts import cut_lane, retell_cuts
from mesh.lane.faults import ask_due, inputs_of, recovered
from mesh.lane.handover import count_unwritten, give_back, go_on_behind
from mesh.lane.lane import Lane
from mesh.lane.log import Log
from mesh.lane.messages.poison import Poison
from mesh.lane.relinking import end_removed, relink_lane
from mesh.lane.resuming import reached
from mesh.lane.sources import Source
from mesh.lane.step import step
from mesh.lane.target_holds import held_offsets
from mesh.lane.traces import Traces
from mesh.lane.unwritable import Unwritable
from mesh.model.control import NO_TOPIC, OutboxPosition, Stop, StopReason
from mesh.model.effects import Relinked
from mesh.model.inputs import Input, LaneApplied, SourceResumed, SourceStopped
from mesh.model.interest_inputs import VersionByInput
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.node.machine import NodeMachine
from mesh.transport.port import KafkaCluster, Record, TopicPartition
from mesh.worker.lanes.accepted_losses import AcceptedLosses
from mesh.worker.lanes.committing import LaneCommits
from mesh.worker.lanes.direct_copies import DirectCopies
from mesh.worker.lanes.overfull import Overfull
from mesh.worker.lanes.pace import BATCH_RECORDS, is_full
from mesh.worker.lanes.refusals import Refusals
from mesh.worker.lanes.retry_backoff import RetryBackoff
from mesh.worker.lanes.sources import Sources
from mesh.worker.lanes.taking import Taken, take_lane
from mesh.worker.lanes.token_bucket import TokenBucket, token_buckets
from mesh.worker.process.clock import Clock
from mesh.worker.process.commits import CommitOutcome, Commits
from mesh.worker.process.errands import LOOK_S, Errand, Errands
from mesh.worker.process.recall import Recall
from mesh.worker.process.transactions import LaneTransactions

log = structlog.get_logger()


@dataclass(slots=True)
class Lanes:
    """What a worker does with the lanes it owns.

    Attributes:
        topology: The mesh.
        home: The node's own Kafka cluster.
        recall: Reads what its own topics say.
        machine: Knows the interest in force.
        sources: Finds and assigns what the lanes read.
        direct: Writes direct copies.
        errands: Takes lanes beside the loop.
        commits: Waits for commits beside the loop.
        owned: The lanes taken, by number.
        transactions: Theirs.
        refusals: The targets that cannot be written.
        full: Lanes and targets that are held until less waits there. Spec: R14.
        overfull: Parts of endpoints of which the oldest are to become dead letters.
        pushed_out: By endpoint: messages that did since this worker began.
        accounts: What its lanes have committed since this worker began.
        log: Messages of the lanes for people, until they are written.
        taken: How many lanes it has taken since it began.
        strays: Records of strangers that it has found in the lanes' progress since then.
        poison: Finds the records that break the routing.
        has_failed: A lane has failed since somebody last looked at its targets.
        traces: Notified of each batch; None if nobody follows traces.
        committing: Commits what they decide.
    """

    topology: Topology
    home: KafkaCluster
    recall: Recall
    machine: NodeMachine
    sources: Sources
    direct: DirectCopies
    clock: Clock
    errands: Errands
    commits: Commits
    owned: dict[int, Lane] = field(default_factory=dict)
    transactions: dict[int, LaneTransactions] = field(default_factory=dict)
    refusals: Refusals = field(default_factory=Refusals)
    full: frozenset[tuple[int, str]] = frozenset()
    overfull: dict[TopicPartition, Overfull] = field(default_factory=dict)
    pushed_out: dict[str, int] = field(default_factory=dict)
    accounts: Accounts = field(default_factory=Accounts)
    log: Log = field(default_factory=Log)
    taken: int = 0
    strays: int = 0
    poison: Poison = field(default_factory=Poison)
    has_failed: bool = False
    traces: Traces | None = None
    names: TopicNames = field(init=False)
    committing: LaneCommits = field(init=False)
    _takings: dict[int, Errand[Taken]] = field(default_factory=dict)
    _backoff: RetryBackoff = field(default_factory=RetryBackoff)
    _former: dict[int, tuple[int, Mapping[TopicPartition, int]]] = field(default_factory=dict)
    _accepted: AcceptedLosses = field(default_factory=AcceptedLosses)
    _buckets: dict[int, Mapping[str, TokenBucket]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Build what stays the same, and share the transactions with what commits them."""
        self.names = TopicNames(self.topology.prefix)
        self.committing = LaneCommits(self.clock, self.commits, self.direct, self.transactions)

    def follow(self, assigned: frozenset[int], now: int) -> Iterator[Input]:
        """Take the lanes that the group assigned to this worker; assign what they are to read.

        Yields:
            Stops of lanes that cannot be taken, and their ends.
        """
        if not self.machine.has_routed:
            return
        for number in sorted(assigned - self.owned.keys() - self._takings.keys()):
            if not self._backoff.is_over(number, now):
                continue
            node, home = self.machine.node, self.home
            steps = take_lane(self.topology, node, number, home, self.recall, self.clock)
            self._takings[number] = self.errands.begin(steps)
        for number, errand in list(self._takings.items()):
            if errand.has_ended():
                del self._takings[number]
                if not errand.is_off:
                    yield from self._end_taking(number, errand, now)
        self.sources.find(self.owned, now)

    def _end_taking(self, number: int, errand: Errand[Taken], now: int) -> Iterator[Input]:
        topic = self.names.progress(self.machine.node)
        try:
            taken = errand.result()
        except TransportUnreadableError as error:
            self._backoff.unreadable(number, now)
            log.error("lane.unreadable", lane=number, fault=str(error))  # noqa: TRY400 - for people
            offset, reason = error.offset, StopReason.UNREADABLE
            yield SourceStopped("", Stop(topic, number, NO_TOPIC, reason, offset, offset + 1))
            return
        except TransportError as error:
            log.warning("lane.not_taken", lane=number, fault=str(error))
            self._backoff.failed(number, self.clock.now_ms())
            return
        lane = Lane(
            self.topology,
            self.machine.node,
            number,
            self.machine.learner,
            taken.progress,
            taken_ms=taken.taken_ms,
            accounts=self.accounts,
            log=self.log,
            paused=self.sources.gate.filters,
            traces=self.traces,
        )
        self.taken += 1
        self.strays += taken.strays
        if self._backoff.taken(number):
            yield SourceResumed(topic, number)
        self.owned[number] = lane
        self.transactions[number] = LaneTransactions(taken.writer)
        self._begin_with(lane, now)
        log.info("lane.taken", lane=number, epoch=lane.progress.epoch)

    def _begin_with(self, lane: Lane, now: int) -> None:
        """Have a lane continue from where it was left."""
        number = lane.number
        epoch, handed_on = self._former.pop(number, (0, {}))
        if epoch + 1 == lane.progress.epoch:
            # Nobody owned it in between: how far direct copies went is known exactly.
            go_on_behind(lane, handed_on, now)
        if number not in self._buckets:
            self._buckets[number] = self._new_buckets()
        count_unwritten(lane, now)
        end_removed(lane, self.sources.topics.names, now)
        recovered(lane, self.sources.topics.neighbours, now)
        self.refusals.hold(lane, now)
        self.refusals.hold_unwritable(lane, now)
        self.sources.start(lane, now)
        cut_lane(lane, self.machine.in_force, self.machine.learner.all_cuts(), now)

    def _new_buckets(self) -> Mapping[str, TokenBucket]:
        topology, node = self.topology, self.machine.node
        neighbours, lanes = topology.neighbours(node), topology.nodes[node].lanes
        return token_buckets(topology.limits, node, neighbours, lanes)

    def relink(self, relinked: Relinked, now_ms: int) -> None:
        """Have every lane read and write other links from its present positions on. Spec: K28."""
        self.topology = relinked.topology
        for number in self._buckets:
            self._buckets[number] = self._new_buckets()
        topics = self.sources.topics
        gone = {topic: topics.cluster_id(topics[topic].kafka) for topic in topics.gone()}
        for lane in self.owned.values():
            relink_lane(lane, relinked, gone, now_ms)
        self.sources.relink(relinked.topology, self.owned, now_ms)

    def keep(self, assigned: frozenset[int]) -> None:
        """Give up the lanes, and takings under way, that the group did not leave to this worker.

        Lanes that move away are announced before; these are lost, and brokers may not answer.
        """
        for number, errand in self._takings.items():
            if number not in assigned and not errand.is_off:
                log.info("lane.taken_for_nothing", lane=number)
                errand.call_off()
        for number in sorted(self.owned.keys() - assigned):
            self.drop(number)

    def hand_back(self, numbers: Sequence[int]) -> None:
        """Give up lanes that others will take, at exact positions, so that nothing arrives late."""
        lanes = [self.owned[number] for number in numbers]
        self.committing.begin_last_turn()
        known = self.committing.commit_last(lanes)
        self.direct.write(lanes)
        if lanes and (failed := self.direct.flush()):
            log.warning("direct.lost", records=failed)
        else:
            self.direct.settle(lanes)
        for lane in known:
            give_back(lane, self.clock.now_ms())
        self.committing.commit_last(known)
        for number in numbers:
            self.drop(number)

    def drop(self, number: int) -> None:
        """Give a lane up; what it had not committed never happened.

        Nobody waits for a commit under way: brokers may not answer. If it succeeds after all, the
        lane's next owner finds it, and counts the direct copies that waited for it.
        """
        lane = self.owned[number]
        if self.committing.is_through(lane):
            with suppress(TransportError):
                self.committing.end(lane)
        del self.owned[number]
        self._former[number] = (lane.progress.epoch, lane.direct.handed_on)
        self.direct.write([lane])
        self.sources.stop(lane)
        self.transactions.pop(number).close()
        self.write_log()
        log.info("lane.dropped", lane=number)

    def stand_still(self, lane: Lane, *, for_now: bool) -> None:
        """Have a lane read nothing while a catch-up writes the lane's last records itself. K20."""
        meeting = self.sources.gate.meeting
        if for_now == (lane.number in meeting):
            return
        if for_now:
            meeting[lane.number] = None
        else:
            del meeting[lane.number]
        self.sources.settle(self.owned, self.clock.now_ms())

    @property
    def count(self) -> int:
        """How many lanes the node has, those of its other workers included."""
        return self.topology.nodes[self.machine.node].lanes

    def owns(self, lane: Lane) -> bool:
        """Return whether a lane is still the one that this worker owns under its number."""
        return self.owned.get(lane.number) is lane

    def resume(self, stop: Stop) -> None:
        """Let a stopped source read on: its loss is accepted. Spec: R6."""
        self._accepted.add(stop)

    def resume_accepted(self, now: int) -> Iterator[Input]:
        """Resume the sources whose losses operators accepted, as far as brokers answer."""
        consents = self.machine.learner.faults.accepted
        for lane, stop in self._accepted.due(self.owned, self.count, consents, now):
            if lane.number in self.sources.gate.meeting:
                continue  # its catch-up is about to end, unaware of the loss
            if lane.closing is not None:
                continue  # it may go on already
            try:
                self.sources.resume(lane, stop, now)
            except TransportError as error:
                log.warning("source.not_resumed", range=stop.range, fault=str(error))
            yield from self.commit([lane])

    def cut(self, in_force: VersionByInput, cuts: Mapping[str, int]) -> None:
        """Have every lane commit the positions from which the new routing holds. Spec: K25."""
        for lane in self.owned.values():
            cut_lane(lane, in_force, cuts, self.clock.now_ms())

    def pause_subjects(self, filters: frozenset[str], now: int) -> None:
        """From now on take exactly these subjects no longer from clients."""
        gate = self.sources.gate
        if filters == gate.filters:
            return
        gate.filters = filters
        gate.waiting.clear()
        for lane in self.owned.values():
            lane.pause(filters)
        self.sources.settle(self.owned, now)

    # -- records --------------------------------------------------------------------------

    def route(self, data: Mapping[TopicPartition, Sequence[Record]], now: int) -> Iterator[Input]:
        """Hand records to the lanes they belong to, in order; commit each batch that is full.

        Args:
            data: What the intake has fetched, by partition; what no lane reads any more is dropped.
            now: The present moment, in ms.

        Yields:
            What the machine should know of the commits.
        """
        self.committing.begin_turn()
        for lane in self.owned.values():
            lane.direct.expire(self.clock.now_ms())
            ask_due(lane, now)
        count = self.count
        for at, records in self.sources.identified(self.owned, data, now).items():
            while records and self.sources.is_read(at) and not self.sources.comes_again(at):
                owner = self.owned.get(at.partition % count)
                source = owner.sources.get(at) if owner is not None else None
                if owner is None or source is None:
                    break  # fetched before the lane was given up
                if at in self.sources.last_read.expected_epochs:
                    records = self.sources.checked(owner, at, records)
                    continue
                retell_cuts(owner, now)
                first, position = records[0].offset(), owner.position(at)
                if first < position or records[-1].offset() - first < len(records) - 1:
                    records = _going_on(records, position)
                    continue
                taken = self._take_records(owner, source, records, now)
                if not taken:
                    break
                records = records[taken:]
                if owner.batch is not None and owner.batch.records >= BATCH_RECORDS:
                    yield from self.commit([owner])
        if self.sources.has_identified:
            self.sources.read_on(self.owned)

    def _take_records(self, lane: Lane, source: Source, records: Sequence[Record], now: int) -> int:
        """Route some records; return how many, 0 if the lane reads no further here."""
        try:
            if source.link is not None:
                bucket = self._buckets[lane.number].get(source.link.neighbour)
                if bucket is not None:
                    records = records[:1]
                    rest_ms = bucket.take(len(records[0].value() or b""), now)
                    self.sources.rest(lane, source.link, now + rest_ms, now)
            else:
                read = 0 if lane.batch is None else lane.batch.records
                records = records[: BATCH_RECORDS - read]
            output = step(lane, source, records, now, records_max=BATCH_RECORDS, poison=self.poison)
            if output.is_paused:
                self.sources.wait(lane, source.at, now)
            self.transactions[lane.number].write(output.rows)
        except (TransportError, PoisonError) as error:
            self._give_up(lane, error)
        except UnknownVersionError as error:
            # Reading on would lose it: the link stops here until one side is upgraded. K10.
            log.error(  # noqa: TRY400 - one line for people
                "link.stopped",
                topic=source.at.topic,
                partition=source.at.partition,
                fault=str(error),
            )
            unread = next(one for one in records if one.offset() >= lane.position(source.at))
            self.sources.halt(lane, source.at, unread, now)
        else:
            return output.taken
        return 0

    def patience(self, timeout_s: float) -> float:
        """Return how long to wait for records: no longer than until the next write is due."""
        moments: list[int] = []
        for lane in self.owned.values():
            if (batch := lane.batch) is not None and lane.closing is None:
                moments.append(self.committing.pace.due_ms(batch))
            moments.extend(lane.broken.due_ms)
        if self._takings or self.sources.gate.committing:
            timeout_s = min(timeout_s, LOOK_S)
        moments.extend(self.sources.gate.resting.values())
        if any(lane.direct.ready for lane in self.owned.values()):
            moments.append(self.direct.due_ms)
        now = self.clock.now_ms()
        return min([timeout_s, *(max(0.0, (moment - now) / 1000) for moment in moments)])

    def commit_due(self, *, is_idle: bool) -> Iterator[Input]:
        """Commit the lanes that have nothing more to read or reached a limit. Spec: K17.

        If everything that was read is direct messages that have been sent already, nobody waits for
        the commit: only a limit triggers it.
        """
        now = self.clock.now_ms()
        is_time = is_idle and self.committing.pace.is_time(now)
        due = [
            lane
            for lane in self.owned.values()
            if (batch := lane.batch) is not None
            and (is_full(batch, now) or (is_time and batch.is_awaited))
        ]
        if due or self.sources.gate.committing:
            yield from self.commit(due)

    def commit(self, lanes: Sequence[Lane]) -> Iterator[Input]:
        """Commit what some lanes have decided; yield what finished commits report to the node.

        Most commits finish within a moment, and that long the loop waits for all of a turn
        together. A lane whose commit takes longer reads nothing until it finishes; nobody else
        waits for it. Spec: K17.
        """
        begun: list[CommitOutcome] = []
        for lane in lanes:
            if (batch := lane.batch) is None or lane.closing is not None:
                continue
            try:
                outcome = self.committing.begin(lane, batch)
            except TransportError as error:
                self._give_up(lane, error)
                continue
            if outcome is None or outcome.done():
                yield from self._end_commit(lane)
            else:
                begun.append(outcome)
        if begun or self.sources.gate.committing:
            self.committing.wait(begun)
            yield from self._end_commits(self.clock.now_ms())

    def _end_commits(self, now: int) -> Iterator[Input]:
        """End finished commits; a lane whose commit takes longer reads nothing until then. K17."""
        for lane in list(self.owned.values()):
            if lane.closing is not None and self.committing.is_through(lane):
                yield from self._end_commit(lane)
        late = frozenset(lane.number for lane in self.owned.values() if lane.closing is not None)
        if late != self.sources.gate.committing:
            self.sources.gate.committing = late
            self.sources.settle(self.owned, now)

    def _end_commit(self, lane: Lane) -> Sequence[Input]:
        """Take the outcome of a lane's commit, if one is under way; return what it reports."""
        try:
            closing = self.committing.end(lane)
        except TransportError as error:
            self._give_up(lane, error)
            return ()
        if closing is None:
            return ()
        self.committing.go_on_at_the_pace_of(closing, self.clock.now_ms())
        self._backoff.committed(lane.number)
        facts = [fact for fact in closing.batch.facts.values() if fact is not None]
        applied = LaneApplied(lane.number, closing.in_force, lane.following.topology)
        return [*closing.batch.notices, *inputs_of(facts, self.sources.topics.neighbours), applied]

    def _give_up(self, lane: Lane, error: TransportError | PoisonError) -> None:
        """Drop a lane whose transaction failed; it is taken again from what is committed.

        This holds even if another worker fenced it: the group will say so. Spec: R3, R7.
        """
        log.warning("lane.failed", lane=lane.number, fault=str(error))
        self.has_failed = True
        now = self.clock.now_ms()
        self.refusals.note(lane, error.topics if isinstance(error, TransportError) else (), now)
        self._backoff.failed(lane.number, now)
        self.drop(lane.number)

    def hold_unwritable(self, unwritable: Unwritable, now: int) -> None:
        """Stop writing to targets that cannot be written. Spec: K20."""
        self.refusals.unwritable = unwritable
        for lane in list(self.owned.values()):
            try:
                self.refusals.hold_unwritable(lane, now)
            except TransportError as error:
                self._give_up(lane, error)

    def write_log(self) -> None:
        """Write the lanes' messages for people to the log."""
        for note in self.log.take():
            getattr(log, note.level)(note.event, **note.fields)

    # -- what others want to know -------------------------------------------------------------

    def read_positions(self, neighbour: str | None) -> Mapping[TopicPartition, OutboxPosition]:
        """Return committed positions on a neighbour's outboxes, or on the own ingress."""
        return {
            source.at: outbox_position(
                source.at, source.identity, reached(lane, source.at), held_offsets(lane, source)
            )
            for lane in self.owned.values()
            for source in [*lane.sources.values(), *self.sources.stopped(lane)]
            if (source.link.neighbour if source.link else None) == neighbour
            and source.at in lane.progress.next
        }


def _going_on(records: Sequence[Record], position: int) -> Sequence[Record]:
    """Return the records of a batch that were not routed yet, where some are repeated.

    A reader should never repeat records: but a repeated one would be delivered twice. Spec: K18.
    """
    log.error("source.rewound", topic=records[0].topic(), partition=records[0].partition())
    going_on: list[Record] = []
    for record in records:
        if record.offset() >= position:
            going_on.append(record)
            position = record.offset() + 1
    return going_on
