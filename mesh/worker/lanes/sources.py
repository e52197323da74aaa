"""What a worker's lanes read: identified and assigned as it appears. Spec: K3, K14, R6."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from functools import partial

import structlog

from mesh.core.local_links import LocalLink
from mesh.errors import TransportError
from mesh.lane.accepted_losses import accept_loss, known_until
from mesh.lane.cuts import tell_cuts
from mesh.lane.handover import tell_position
from mesh.lane.lane import Lane
from mesh.lane.relinking import begin_links
from mesh.lane.resuming import (
    Bounds,
    begin_of,
    go_on,
    is_reserved,
    note_leader,
    stop_of,
    stop_source,
)
from mesh.lane.sources import Source, SourceTopic
from mesh.lane.target_holds import hold_source
from mesh.model.control import Stop, StopReason
from mesh.model.frames import MessageClass
from mesh.model.reasons import NotRead
from mesh.model.topology import Topology
from mesh.node.learner import Learner
from mesh.transport.partly import answers_so_far
from mesh.transport.port import Admin, Reader, Record, TopicInfo, TopicPartition
from mesh.worker.lanes.first_records import FirstRecords
from mesh.worker.lanes.read_gate import ReadGate
from mesh.worker.lanes.read_topics import ReadTopics
from mesh.worker.lanes.truncated_logs import Known, LastRead
from mesh.worker.process.intake import Intake
from mesh.worker.process.questions import Questions

SOON_OVER = frozenset({NotRead.COMMITTING, NotRead.MEETING, NotRead.RATE})
"""Reasons that end soon, so first records wait in memory; otherwise they are read again later."""

NOWHERE = (None, None)
"""Where a log begins and ends of which brokers say nothing."""

log = structlog.get_logger()


@dataclass(slots=True)
class Sources:
    """Hands the partitions of the topics that a node reads to its lanes.

    Attributes:
        learner: Knows links and interest.
        admins: Per Kafka cluster.
        readers: Per Kafka cluster.
        intake: What was fetched and is not routed yet.
        questions: Asks brokers beside the loop.
        topics: What is read.
        last_read: Finds logs that lost their end and have grown since.
        gate: Says what is not to be read just now.
    """

    topology: InitVar[Topology]
    node: InitVar[str]
    learner: Learner
    admins: Mapping[str, Admin]
    readers: Mapping[str, Reader]
    intake: Intake
    questions: Questions
    topics: ReadTopics = field(init=False)
    last_read: LastRead = field(default_factory=LastRead)
    gate: ReadGate = field(default_factory=ReadGate)
    _first: FirstRecords = field(init=False)
    _known: dict[TopicPartition, None] = field(default_factory=dict)
    _unread: dict[TopicPartition, NotRead] = field(default_factory=dict)
    _reassigned: dict[TopicPartition, None] = field(default_factory=dict)
    _read_ids: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self, topology: Topology, node: str) -> None:
        """List what is read."""
        asking = (self.admins, self.readers, self.questions)
        self.topics = ReadTopics(topology, node, self.learner, *asking)
        self._first = FirstRecords(self.admins, self.questions)

    @property
    def _count(self) -> int:
        """How many lanes the node has."""
        return self.topics.topology.nodes[self.topics.node].lanes

    def relink(self, topology: Topology, lanes: Mapping[int, Lane], now_ms: int) -> None:
        """Read what new links bring, and nothing from removed links."""
        gone = self.topics.gone()
        for lane in lanes.values():
            for at in [at for at in lane.sources if at.topic in gone]:
                self._leave(lane, at)
        self.topics.relink(topology, now_ms)
        for lane in lanes.values():
            for at in lane.sources:
                lane.relink(at, self.topics[at.topic].link)

    def stopped(self, lane: Lane) -> Iterator[Source]:
        """Yield the stopped sources of a lane, as far as their identity is known."""
        progress = lane.progress
        for at in progress.stopped:
            topic_id = progress.topic_ids.get(at)
            if at.topic in self.topics and topic_id is not None:
                topic = self.topics[at.topic]
                generation = progress.generations.get(at, 0)
                yield Source(at, topic_id, topic.message_class, topic.link, generation)

    def is_read(self, at: TopicPartition) -> bool:
        """Return whether records fetched from a source follow what was routed, or are repeats."""
        return at not in self._unread

    def find(self, lanes: Mapping[int, Lane], now_ms: int) -> None:
        """Look for topics that did not exist yet; assign new partitions to lanes."""
        is_due = self.topics.want(now_ms)
        if is_due:
            self._look_again(lanes, now_ms)
        if self.topics.take_answers():
            self._verify(lanes)
            is_due = True
        for lane in lanes.values():
            if is_due or lane.following.awaited or self.questions.is_open("bounds", lane.number):
                self.start(lane, now_ms)

    def _look_again(self, lanes: Mapping[int, Lane], now_ms: int) -> None:
        """Look again at logs that may have lost what was read last. Spec: R6."""
        for at in self.last_read.overdue(now_ms):
            lane = lanes.get(at.partition % self._count)
            is_asked = self.is_read(at) and self.readers[self._kafka_of(at)].reachable()
            if lane is not None and at in lane.sources and is_asked:
                self._leave(lane, at)
                self.topics[at.topic].info = None  # a topic that was recreated has lost no end
                self.last_read.doubt_once(lane, at)  # other records may stand before it

    def _verify(self, lanes: Mapping[int, Lane]) -> None:
        """Notice topics that were recreated, and partitions that were added. Spec: R6, K-2, K-6."""
        for lane in lanes.values():
            for place, source in list(lane.sources.items()):
                # An answer that was requested meanwhile for another partition counts as well.
                info = self.topics[place.topic].info
                if info is not None and info.topic_id != source.topic_id:
                    self._leave(lane, place)

    def start(self, lane: Lane, now_ms: int) -> None:
        """Assign to a lane what it does not read yet, as far as brokers answer.

        The questions are asked beside the loop: call again until there is nothing new to assign.

        Args:
            lane: Which; while it waits for what its former owner knew, nothing is assigned.
            now_ms: The present moment.
        """
        if not lane.following.stop_waiting_if_known(lane.learner):
            return
        for topic in self.topics:
            if topic.info is None:
                continue
            kept = {**lane.sources, **lane.progress.stopped}
            numbers = range(lane.number, topic.info.partitions, self._count)
            places = [TopicPartition(topic.name, number) for number in numbers]
            new = [at for at in places if at not in kept]
            if topic.message_class is MessageClass.DIRECT:
                new = [at for at in new if not is_reserved(lane, at, now_ms)]
            if not new:
                continue
            try:
                key = ("bounds", lane.number, lane.progress.epoch, topic.name)
                read = self.last_read.known(lane, new)
                ask = partial(_bounds, self.admins[topic.kafka], new, read)
                bounds = self.questions.answer(key, ask)
                if bounds is not None:
                    self._assign(lane, topic, topic.info.topic_id, bounds, now_ms)
            except TransportError as error:
                log.info("source.not_assigned", topic=topic.name, fault=str(error))

    def stop(self, lane: Lane) -> None:
        """Stop reading for a lane; what was already fetched for it is never routed."""
        self.questions.forget("bounds", lane.number)
        for place in lane.sources:
            self._forget(place)
        self.intake.forget(list(lane.sources))
        lane.leave(*lane.sources)

    def halt(self, lane: Lane, place: TopicPartition, record: Record, now_ms: int) -> None:
        """Stop reading a source at a record of an unknown version. Spec: K10."""
        offset = record.offset()
        source = lane.sources[place]
        self._leave(lane, place)
        stop = stop_of(place, source.topic_id, StopReason.VERSION, offset, offset + 1)
        note_leader(lane, source, record.leader_epoch(), now_ms)
        stop_source(lane, stop, now_ms)

    def resume(self, lane: Lane, stop: Stop, now_ms: int) -> None:
        """Announce what an operator accepted as lost, and continue after it. Spec: R6, DESIGN 6.

        Raises:
            TransportError: The source cannot be looked at now.
        """
        at = TopicPartition(stop.topic, stop.partition)
        topic, epoch = self.topics[stop.topic], lane.leader_epoch(at)
        read = {} if epoch is None else {at: Known(epoch, known_until(stop), is_doubted=True)}
        looking = partial(_look, self.admins[topic.kafka], at, read)
        looked = self.questions.answer(("resume", at), looking)
        if looked is None:
            return  # not yet answered: the next try takes it
        info, (start, end) = looked
        if info is not None and start is not None:
            topic.info = info
            self.last_read.doubt(at)  # it may lose its end once more before it is assigned
            accept_loss(lane, topic, info.topic_id, stop, (start, end), now_ms)

    def _leave(self, lane: Lane, place: TopicPartition) -> None:
        self._forget(place)
        self.intake.forget([place])
        lane.leave(place)

    def _forget(self, place: TopicPartition) -> None:
        self._unread.pop(place, None)
        self.last_read.forget(place)
        self._first.forget(place)
        self.gate.identifying.pop(place, None)
        self.gate.waiting.pop(place, None)
        self.readers[self.topics[place.topic].kafka].unassign([place])

    def _assign(
        self,
        lane: Lane,
        topic: SourceTopic,
        topic_id: bytes,
        bounds: Bounds,
        now_ms: int,
    ) -> None:
        places = go_on(lane, topic, topic_id, bounds, now_ms)
        self.last_read.looked_at(lane, bounds, places)
        if self._read_ids.setdefault(topic.name, topic_id) != topic_id:
            self._read_ids[topic.name] = topic_id
            self.readers[topic.kafka].renew()
        for place in places:
            if topic.message_class is MessageClass.GUARANTEED:
                self.last_read.expect(lane, place, bounds[place][0] or 0)
            was_left = place in lane.progress.unlinked
            source = lane.assign(place, topic, topic_id)
            if was_left:  # whoever takes the lane before more is read is to know that it is back
                tell_position(lane, place, max(0, lane.position(place)), now_ms)
            self._first.expect(place)
            hold_source(lane, source, now_ms)
            if lane.following.change_before < self.learner.followed:
                # Its former owner ended before it could report which links are new.
                begin_links(lane, source, list(self.learner.neighbours), now_ms)
        if lane.following.has_cut:  # the others have reported already: these are late
            tell_cuts(lane, [lane.sources[at] for at in places], self.learner.all_cuts(), now_ms)
        reasons = {at: self._why(at, topic.link, now_ms) for at in places}
        still = {at: reason for at, reason in reasons.items() if reason is not None}
        self._unread.update(still)
        self._read(topic.kafka, {at: begin_of(lane, at) for at in places if at not in still})

    def _read_again(self, lane: Lane, at: TopicPartition) -> None:
        """Read on where a source was left for a moment: its log may have lost its end since."""
        if lane.sources[at].message_class is MessageClass.GUARANTEED:
            self.last_read.expect(lane, at)
        self._read(self._kafka_of(at), {at: begin_of(lane, at)})

    def _read(self, kafka: str, positions: Mapping[TopicPartition, int]) -> None:
        begin = self.last_read.begin
        self._reassigned.update(dict.fromkeys(positions))
        self.readers[kafka].assign({at: begin(at, position) for at, position in positions.items()})

    def identified(
        self,
        lanes: Mapping[int, Lane],
        data: Mapping[TopicPartition, Sequence[Record]],
        now_ms: int,
    ) -> Mapping[TopicPartition, Sequence[Record]]:
        """Return records whose topic is proven: the first records of a source wait for that. R6.

        Args:
            lanes: The lanes that this worker owns, by number.
            data: What was fetched just now, by partition.
            now_ms: The present moment.

        Returns:
            The same without first records, and with those that have been proven meanwhile. Records
            of another topic than the source's are left out: the source is looked at again.
        """
        if not self._first:
            return data
        known = dict(data)
        for at in [one for one in known if self._first.is_first(one) and self.is_read(one)]:
            self._first.keep(at, known.pop(at))
            self.gate.identifying[at] = None
            self.settle({at.partition % self._count: lanes[at.partition % self._count]}, now_ms)
        for at, info in list(self._first.looked_at(self._kafka_of, now_ms)):
            lane = lanes[at.partition % self._count]
            if info.topic_id == lane.sources[at].topic_id:
                self._first.prove(at)
                continue
            self._first.forget(at)
            del self.gate.identifying[at]
            self.topics[at.topic].info = info
            self._leave(lane, at)
        for at in self._first.proven:
            why = self._why(at, lanes[at.partition % self._count].sources[at].link, now_ms)
            if why in SOON_OVER:
                continue
            del self.gate.identifying[at]
            records = self._first.forget(at)
            if why is None or why is NotRead.IDENTITY:  # and nothing else
                del self._unread[at]
                self._known[at] = None
                known[at] = records
            else:
                self._unread[at] = why
                self._first.expect(at)  # else they could fill memory for long: they are read again
        return known

    def begin_turn(self) -> None:
        """Note that records are fetched now: what is assigned from here on comes later."""
        self._reassigned.clear()

    def comes_again(self, at: TopicPartition) -> bool:
        """Return whether a source was assigned since this turn's records were fetched.

        What has been fetched of it is read once more from the position assigned.
        """
        return at in self._reassigned

    @property
    def has_identified(self) -> bool:
        """Whether records were identified in this turn."""
        return bool(self._known)

    def read_on(self, lanes: Mapping[int, Lane]) -> None:
        """Read on after the records that were identified and have been routed by now.

        The last of them is read once more: while brokers answered, the log may have lost its end
        and grown back to where it is read. Spec: R6.
        """
        for at in self._known:
            lane = lanes.get(at.partition % self._count)
            if lane is None or at not in lane.sources or at in self._unread:
                continue
            self._read_again(lane, at)
        self._known.clear()

    def _kafka_of(self, at: TopicPartition) -> str:
        return self.topics[at.topic].kafka

    def checked(
        self, lane: Lane, at: TopicPartition, records: Sequence[Record]
    ) -> Sequence[Record]:
        """Return the records after the one that was read once more; none if that one differs.

        A difference shows that the log lost its end and has since grown beyond the position: the
        source is left, and assigned again up to where the log is what was read. Spec: R6.
        """
        last = records[0]
        is_gone = last.offset() >= lane.position(at)
        if self.last_read.agrees(at, last):
            return records if is_gone else records[1:]
        self._leave(lane, at)
        if is_gone:
            self.last_read.doubt(at, last.leader_epoch() or 0)
        else:
            log.error(
                "source.outgrown",
                topic=at.topic,
                partition=at.partition,
                offset=last.offset(),
            )
            self.last_read.doubt(at)
        return ()

    def lost(self, lanes: Mapping[int, Lane], places: Collection[TopicPartition]) -> None:
        """Handle partitions whose position is outside their log. Spec: R6.

        They are assigned again, which shows what became of them.
        """
        for place in places:
            lane = lanes.get(place.partition % self._count)
            if lane is not None and place in lane.sources:
                if place not in self.last_read.expected_epochs:  # else that record may be deleted
                    log.error("source.lost", topic=place.topic, partition=place.partition)
                self._leave(lane, place)
                self.topics[place.topic].info = None  # perhaps it was recreated
                self.last_read.doubt(place)  # or it has grown back before the look at its end

    # -- standing still -------------------------------------------------------------------

    @property
    def unread(self) -> Mapping[TopicPartition, NotRead]:
        """What is deliberately not read, and why."""
        return self._unread

    def _why(self, at: TopicPartition, link: LocalLink | None, now_ms: int) -> NotRead | None:
        lane = at.partition % self._count
        if link is not None:
            return self.gate.why_of_link(self.topics.node, link.neighbour, at, lane, now_ms)
        is_guaranteed = self.topics[at.topic].message_class is MessageClass.GUARANTEED
        return self.gate.why(at, lane, is_guaranteed=is_guaranteed)

    def rest(self, lane: Lane, link: LocalLink, until_ms: int, now_ms: int) -> None:
        """Read nothing from a link for this lane until a moment, if that is still to come."""
        if until_ms <= now_ms:
            return
        for at, source in lane.sources.items():
            if source.link == link:
                self.gate.resting[at] = until_ms
        self.settle({lane.number: lane}, now_ms)

    def wait(self, lane: Lane, at: TopicPartition, now_ms: int) -> None:
        """Stop reading here: the next message has a paused subject."""
        self.gate.waiting[at] = None
        self.settle({lane.number: lane}, now_ms)

    def settle(self, lanes: Mapping[int, Lane], now_ms: int) -> None:
        """Read exactly the sources that are not blocked; they continue where they were."""
        for lane in lanes.values():
            for at, source in lane.sources.items():
                reason = self._why(at, source.link, now_ms)
                if reason is not None:
                    if at not in self._unread:
                        self.readers[self.topics[at.topic].kafka].unassign([at])
                        self.intake.forget([at])
                    self._unread[at] = reason
                elif at in self._unread:
                    del self._unread[at]
                    self._read_again(lane, at)


def _bounds(
    admin: Admin,
    places: Sequence[TopicPartition],
    read: Mapping[TopicPartition, Known],
) -> Bounds:
    """Return where logs begin and end; a log that lost its end counts only up to where it did.

    What has since taken the place of the lost records does not count, however far it reaches:
    it was not read.

    Partitions without a leader are left out, so that they do not hold up the others.

    Args:
        admin: Of their Kafka cluster.
        places: The partitions.
        read: What is known of the records read from them last.
    """
    starts, have_starts = answers_so_far(partial(admin.starts, places))
    told, have_ends = answers_so_far(partial(admin.ends, places))
    known = [at for at in places if (have_starts or at in starts) and (have_ends or at in told)]
    ends = dict(told)
    for at, last in read.items():
        end = ends.get(at, last.position)
        if at in known and (last.is_doubted or end < last.position):
            ends[at] = admin.agrees_until(at, last.epoch, last.position)
    return {at: (starts.get(at), ends.get(at)) for at in known}


def _look(
    admin: Admin, at: TopicPartition, read: Mapping[TopicPartition, Known]
) -> tuple[TopicInfo | None, tuple[int | None, int | None]]:
    return admin.describe([at.topic]).get(at.topic), _bounds(admin, [at], read).get(at, NOWHERE)
