"""What a worker's lanes read: found, identified and assigned as it appears. Spec: K3, K14, R6."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import structlog

from mesh.core.routing import LocalLink
from mesh.errors import TransportError
from mesh.lane.batch import RESERVED_MS
from mesh.lane.faults import keep_stop, lift_stop
from mesh.lane.held import hold_source
from mesh.lane.lane import Lane, Source
from mesh.lane.messages.gaps import announce, own_provenance
from mesh.lane.relinking import SourceTopic, begin_links, source_topics
from mesh.lane.stops import begin_of, stop_of
from mesh.model.control import Stop, StopReason
from mesh.model.facts import Truncation
from mesh.model.frames import MessageClass, position_in_chain
from mesh.model.reasons import NotRead
from mesh.model.topology import Topology
from mesh.node.learner import Learner
from mesh.transport.partly import as_far_as_told
from mesh.transport.port import Admin, Reader, Record, TopicInfo, TopicPartition
from mesh.worker.lanes.first_records import FirstRecords
from mesh.worker.lanes.outgrown import Known, LastRead
from mesh.worker.lanes.stillness import Stillness
from mesh.worker.process.intake import Intake
from mesh.worker.process.questions import Questions

RETRY_MS = 1_000
VERIFY_MS = 5_000
"""How often it is asked whether topics are still the same: their readers would not notice."""

Bounds = Mapping[TopicPartition, tuple[int | None, int | None]]
"""Where logs begin and end, as far as there are any."""

log = structlog.get_logger()


@dataclass(slots=True)
class Sources:
    """Finds the topics that the lanes read, and hands their partitions to the lanes.

    Attributes:
        vanished: Topics of this very node that were looked for and are not there.
        last_read: Finds logs that lost their end and have grown since.
    """

    topology: Topology
    node: str
    learner: Learner
    admins: Mapping[str, Admin]
    readers: Mapping[str, Reader]
    intake: Intake
    questions: Questions
    vanished: dict[str, None] = field(default_factory=dict)
    last_read: LastRead = field(default_factory=LastRead)
    _first: FirstRecords = field(init=False)
    _known: dict[TopicPartition, Record] = field(default_factory=dict)
    _topics: dict[str, SourceTopic] = field(default_factory=dict)
    still: Stillness = field(default_factory=Stillness)
    _unread: dict[TopicPartition, NotRead] = field(default_factory=dict)
    _wanted: dict[str, dict[str, None]] = field(default_factory=dict)
    _tried_ms: int = -RETRY_MS
    _verified_ms: int = 0

    def __post_init__(self) -> None:
        """List them."""
        found = source_topics(self.topology, self.node, self.learner.links)
        self._topics = {topic.name: topic for topic in found}
        self._first = FirstRecords(self.admins, self.questions)

    def gone(self) -> Sequence[str]:
        """Return the topics that are read still, although the links in force have no use for it."""
        wanted = [topic.link for topic in self._topics.values() if topic.link is not None]
        senders = {link.neighbour: None for link in self.learner.links if link.takes}
        left = [link.neighbour for link in wanted if link.neighbour not in senders]
        return [t.name for t in self._topics.values() if t.link and t.link.neighbour in left]

    def relink(self, topology: Topology, lanes: Mapping[int, Lane], now_ms: int) -> None:
        """Read what other links bring, and nothing of those that were removed."""
        gone = self.gone()
        for lane in lanes.values():
            for at in [at for at in lane.sources if at.topic in gone]:
                self._leave(lane, at)
        before, self.topology = self._topics, topology
        found = source_topics(topology, self.node, self.learner.links)
        self._topics = {topic.name: topic for topic in found}
        for name, topic in self._topics.items():
            topic.info = before[name].info if name in before else None
        for lane in lanes.values():
            for at, source in lane.sources.items():
                lane.sources[at] = replace(source, link=self._topics[at.topic].link)
        self._tried_ms = now_ms - RETRY_MS  # look for the new ones at once

    @property
    def topics(self) -> Sequence[str]:
        """Return the names of what is read."""
        return list(self._topics)

    @property
    def neighbours(self) -> dict[str, str]:
        """Return who writes each outbox that is read here, by topic."""
        return {t.name: t.link.neighbour for t in self._topics.values() if t.link is not None}

    def stopped(self, lane: Lane) -> Iterator[Source]:
        """Yield what a lane reads no further, as far as it is known what that was."""
        positions = lane.positions
        for at in positions.stopped:
            topic, topic_id = self._topics.get(at.topic), positions.topic_ids.get(at)
            if topic is not None and topic_id is not None:
                generation = positions.generations.get(at, 0)
                yield Source(at, topic_id, topic.message_class, topic.link, generation)

    def is_read(self, at: TopicPartition) -> bool:
        """Say whether what is fetched of a source follows what was routed: else it comes again."""
        return at not in self._unread

    def find(self, lanes: Mapping[int, Lane], now_ms: int) -> None:
        """Look for topics that did not exist yet; assign to lanes what they do not read yet."""
        is_due = now_ms - self._tried_ms >= RETRY_MS
        if is_due:
            self._tried_ms = now_ms
            self._want([topic for topic in self._topics.values() if topic.info is None])
            if now_ms - self._verified_ms >= VERIFY_MS:
                self._verified_ms = now_ms
                known = [topic for topic in self._topics.values() if topic.info is not None]
                self._want([topic for topic in known if self.readers[topic.kafka].reachable()])
        if self._describe():
            self._verify(lanes)
            is_due = True
        for lane in lanes.values():
            if is_due or lane.awaited or self.questions.is_open("bounds", lane.number):
                self.start(lane, now_ms)

    def _want(self, topics: Sequence[SourceTopic]) -> None:
        """Have brokers be asked for some topics; those of one that does not answer stay."""
        for topic in topics:
            self._wanted.setdefault(topic.kafka, {})[topic.name] = None

    def _describe(self) -> bool:
        """Take what brokers say of the topics that are wanted; say whether any has answered."""
        has_answers = False
        for kafka, wanted in list(self._wanted.items()):
            try:
                ask = partial(self.admins[kafka].describe, list(wanted))
                told = self.questions.answer(("topics", kafka), partial(as_far_as_told, ask))
            except TransportError:
                del self._wanted[kafka]
                continue
            if told is None:
                continue
            found, are_all = told
            del self._wanted[kafka]
            has_answers = True
            for topic in [self._topics[name] for name in wanted if name in self._topics]:
                topic.info = found.get(topic.name, topic.info)
                if are_all and topic.name not in found and topic.link is None:
                    self.vanished[topic.name] = None
        return has_answers

    def _verify(self, lanes: Mapping[int, Lane]) -> None:
        """Notice topics that were made anew, and partitions that were added. Spec: R6, K-2, K-6."""
        for lane in lanes.values():
            for place, source in list(lane.sources.items()):
                # What somebody has asked for meanwhile, for another partition, counts as well.
                info = self._topics[place.topic].info
                if info is not None and info.topic_id != source.topic_id:
                    self._leave(lane, place)

    def start(self, lane: Lane, now_ms: int) -> None:
        """Assign to a lane what it does not read yet, as far as brokers answer."""
        if lane.followed > self.learner.followed:
            return  # its former owner knew of a change that this worker has not read yet
        if self.learner.is_behind(lane.awaited):
            return  # or of interest, so that what comes would not go to whom it is owed
        lane.awaited = {}
        lanes = self.topology.nodes[self.node].lanes
        for topic in self._topics.values():
            if topic.info is None:
                continue
            kept = {**lane.sources, **lane.positions.stopped}
            numbers = range(lane.number, topic.info.partitions, lanes)
            places = [TopicPartition(topic.name, number) for number in numbers]
            new = [at for at in places if at not in kept]
            if topic.message_class is MessageClass.DIRECT:
                new = [at for at in new if not _is_early(lane, at, now_ms)]
            if not new:
                continue
            try:
                key = ("bounds", lane.number, lane.positions.epoch, topic.name)
                read = self.last_read.known(lane, new)
                ask = partial(_bounds, self.admins[topic.kafka], new, read)
                bounds = self.questions.answer(key, ask)
                if bounds is not None:
                    self._assign(lane, topic, topic.info.topic_id, bounds, now_ms)
            except TransportError as error:
                log.info("source.not_assigned", topic=topic.name, fault=str(error))

    def stop(self, lane: Lane) -> None:
        """Stop reading for a lane; what was fetched for it already is never routed."""
        self.questions.forget("bounds", lane.number)
        for place in lane.sources:
            self._forget(place)
        self.intake.forget(list(lane.sources))
        lane.sources.clear()

    def halt(self, lane: Lane, place: TopicPartition, offset: int, now_ms: int) -> None:
        """Read one source no further than a record of an unknown version. Spec: K10."""
        source = lane.sources[place]
        self._leave(lane, place)
        stop = stop_of(place, source.topic_id, StopReason.VERSION, offset, offset + 1)
        self._keep(lane, stop, now_ms)

    def resume(self, lane: Lane, stop: Stop, now_ms: int) -> None:
        """Announce what an operator accepted as lost, and go on behind it. Spec: R6, DESIGN 6.

        Raises:
            TransportError: The source cannot be looked at now.
        """
        at = TopicPartition(stop.topic, stop.partition)
        topic = self._topics[stop.topic]
        looked = self.questions.answer(("resume", at), partial(_look, self.admins[topic.kafka], at))
        if looked is None:
            return  # not yet answered: the next try takes it
        info, start = looked
        if info is None or start is None:
            return
        topic.info = info
        if stop.reason != StopReason.RECREATED and info.topic_id != stop.topic_id:
            # All else in the former topic is lost as well, and the new one begins at its start.
            anew = stop_of(at, stop.topic_id, StopReason.RECREATED, stop.first)
            self._keep(lane, anew, now_ms)
            return
        if stop.reason == StopReason.RETENTION and start > stop.next:
            # More was deleted meanwhile: nobody has accepted that.
            self._keep(lane, replace(stop, next=start), now_ms)
            return
        positions = lane.positions
        generation = positions.generations.get(at, 0)
        source = Source(at, stop.topic_id, topic.message_class, topic.link, generation)
        position = {
            StopReason.RETENTION: stop.next,
            StopReason.TRUNCATED: stop.first,
            StopReason.RECREATED: 0,  # what is deleted there as well is a loss of its own
            StopReason.VERSION: stop.next,
        }[StopReason(stop.reason)]
        batch = lane.open(now_ms)
        if stop.reason == StopReason.TRUNCATED:
            generation += 1
        offset = stop.first + 1 if stop.reason == StopReason.RECREATED else position
        goes_on = position_in_chain(generation, offset)
        announce(lane, batch, source, stop, own_provenance(lane, source), goes_on)
        if stop.reason == StopReason.VERSION:
            lane.mark(batch, source, stop.first)
            lane.broken.forgiven.add(at)
        if stop.reason == StopReason.TRUNCATED:
            lane.keep_truncation(batch, source, Truncation(generation, position, stop.next))
            lane.cut_marks_off(batch, at, position)
        if stop.reason == StopReason.RECREATED:
            generation = 0
        batch.read(at, info.topic_id, generation, position, position - 1, 0, records=0)
        batch.dropped("gap_accepted", at, max(1, stop.next - stop.first))
        lift_stop(lane, stop, now_ms)
        log.warning("source.resumed", lane=lane.number, reason=stop.reason, range=stop.range)

    def _keep(self, lane: Lane, stop: Stop, now_ms: int) -> None:
        at = TopicPartition(stop.topic, stop.partition)
        stop = replace(stop, generation=lane.positions.generations.get(at, 0))
        log.error("source.stopped", lane=lane.number, reason=stop.reason, range=stop.range)
        keep_stop(lane, stop, now_ms)

    def _leave(self, lane: Lane, place: TopicPartition) -> None:
        self._forget(place)
        self.intake.forget([place])
        del lane.sources[place]

    def _forget(self, place: TopicPartition) -> None:
        self._unread.pop(place, None)
        self.last_read.forget(place)
        self._first.forget(place)
        self.still.identifying.pop(place, None)
        self.still.waiting.pop(place, None)
        self.readers[self._topics[place.topic].kafka].unassign([place])

    def _assign(
        self,
        lane: Lane,
        topic: SourceTopic,
        topic_id: bytes,
        bounds: Bounds,
        now_ms: int,
    ) -> None:
        places = [at for at in bounds if self._is_same(lane, topic, topic_id, at, now_ms)]
        if topic.message_class is MessageClass.DIRECT:
            self._resume_direct(lane, bounds, places, now_ms)
        else:
            places = self._inside(lane, topic_id, bounds, places, now_ms)
        self.last_read.looked_at(bounds)
        for place in places:
            if topic.message_class is MessageClass.GUARANTEED:
                self.last_read.expect(lane, place, bounds[place][0] or 0)
            lane.positions.found(place, topic_id)
            generation = lane.generation(place)
            source = Source(place, topic_id, topic.message_class, topic.link, generation)
            lane.sources[place] = source
            self._first.expect(place)
            hold_source(lane, source, now_ms)
            if lane.followed_before < self.learner.followed:
                # Its former owner ended before it could tell which links are new.
                begin_links(lane, source, list(self.learner.neighbours), now_ms)
        if lane.has_cut:  # the others are told already: these come late
            lane.tell_cuts([lane.sources[at] for at in places], self.learner.all_cuts(), now_ms)
        reasons = {at: self._why(at, topic.link, now_ms) for at in places}
        still = {at: reason for at, reason in reasons.items() if reason is not None}
        self._unread.update(still)
        self._read(topic.kafka, {at: begin_of(lane, at) for at in places if at not in still})

    def _is_same(
        self, lane: Lane, topic: SourceTopic, topic_id: bytes, at: TopicPartition, now_ms: int
    ) -> bool:
        """Say whether a position still belongs to the topic; else keep a stop. Spec: R6, K-2."""
        positions = lane.positions
        former = positions.topic_ids.get(at, topic_id)
        if former == topic_id or lane.position(at) < 0:
            return True  # what was never read lacks nothing
        if topic.message_class is MessageClass.GUARANTEED and at not in positions.left:
            first = max(0, lane.position(at))
            self._keep(lane, stop_of(at, former, StopReason.RECREATED, first), now_ms)
            return False
        log.warning("source.recreated", topic=at.topic, partition=at.partition)
        positions.begin_anew(at)
        for kept in (lane.direct.ahead, lane.direct.inherited):
            kept.pop(at, None)
        return True

    def _inside(
        self,
        lane: Lane,
        topic_id: bytes,
        bounds: Bounds,
        places: Sequence[TopicPartition],
        now_ms: int,
    ) -> list[TopicPartition]:
        """Return the places whose positions are inside their logs; stops are kept of others. R6."""
        stops: dict[TopicPartition, Stop] = {}
        for at in places:
            # What was never read begins at 0, also if it is not there any more.
            known_id = lane.positions.topic_ids.get(at, topic_id)
            position = max(0, lane.position(at))
            known_start, known_end = bounds[at]
            start = 0 if known_start is None else known_start
            end = position if known_end is None else known_end
            lane.forget_marks(at, topic_id, start, now_ms)
            if end < position:
                stops[at] = stop_of(at, known_id, StopReason.TRUNCATED, end, position)
            elif start > position:
                stops[at] = stop_of(at, known_id, StopReason.RETENTION, position, start)
        for stop in stops.values():
            self._keep(lane, stop, now_ms)
        return [at for at in places if at not in stops]

    def _read(self, kafka: str, positions: Mapping[TopicPartition, int]) -> None:
        begin = self.last_read.begin
        self.readers[kafka].assign({at: begin(at, position) for at, position in positions.items()})

    def identified(
        self,
        lanes: Mapping[int, Lane],
        data: Mapping[TopicPartition, Sequence[Record]],
        now_ms: int,
    ) -> Mapping[TopicPartition, Sequence[Record]]:
        """Return records of which it is known whose they are: the first of a source wait. R6."""
        if not self._first:
            return data
        known = dict(data)
        count = self.topology.nodes[self.node].lanes
        for at in [one for one in known if self._first.is_first(one) and self.is_read(one)]:
            self._first.keep(at, known.pop(at))
            self.still.identifying[at] = None
            self.settle({at.partition % count: lanes[at.partition % count]}, now_ms)
        for at, info in list(self._first.looked_at(self._kafka_of, now_ms)):
            lane, records = lanes[at.partition % count], self._first.forget(at)
            del self.still.identifying[at]
            if info.topic_id != lane.sources[at].topic_id:
                self._topics[at.topic].info = info
                self._leave(lane, at)
            elif (why := self._why(at, lane.sources[at].link, now_ms)) is not None:
                self._unread[at] = why
                self._first.expect(at)  # it stands still for another reason: they come again
            else:
                del self._unread[at]
                self._known[at] = records[-1]
                known[at] = records
        return known

    @property
    def has_identified(self) -> bool:
        """Whether records were identified in this turn."""
        return bool(self._known)

    def read_on(self, lanes: Mapping[int, Lane]) -> None:
        """Read on behind the records that were identified and are routed by now.

        The last of them is read once more: while brokers were asked the log may have lost its end,
        and have grown again to where it is read. Spec: R6.
        """
        count = self.topology.nodes[self.node].lanes
        for at, last in self._known.items():
            lane = lanes.get(at.partition % count)
            source = lane.sources.get(at) if lane is not None else None
            if lane is None or source is None or at in self._unread:
                continue
            is_behind = lane.position(at) == last.offset() + 1
            epoch = last.leader_epoch()
            if source.message_class is MessageClass.GUARANTEED and is_behind and epoch is not None:
                self.last_read.expected_epochs[at] = epoch
            self._read(self._kafka_of(at), {at: begin_of(lane, at)})
        self._known.clear()

    def _kafka_of(self, at: TopicPartition) -> str:
        return self._topics[at.topic].kafka

    def checked(
        self, lane: Lane, at: TopicPartition, records: Sequence[Record]
    ) -> Sequence[Record]:
        """Return the records behind the one that was read once more; none if it is another.

        Then the log has lost its end and has grown beyond the position since: it is left, and
        assigned anew up to where it is what was read. Spec: R6.
        """
        last = records[0]
        if self.last_read.agrees(lane, at, last):
            return records[last.offset() < lane.position(at) :]  # it may be deleted meanwhile
        log.error("source.outgrown", topic=at.topic, partition=at.partition, offset=last.offset())
        self._leave(lane, at)
        self.last_read.doubt(at)
        return ()

    def _resume_direct(
        self, lane: Lane, bounds: Bounds, places: Sequence[TopicPartition], now_ms: int
    ) -> None:
        """Go on behind all that may have been handed on.

        A former owner used what it had reserved for at most `RESERVED_MS` after its last commit.
        What was in the log then may have gone out without a commit, and is skipped as far as it
        was reserved; what came later has not gone out. Spec: K18, R6.
        """
        for at in [one for one in places if lane.position(one) >= 0]:
            start, end = bounds[at][0] or 0, bounds[at][1] or 0
            if end < lane.position(at):
                self._turn_back(lane, at, end, now_ms)
            lane.skip(at, "takeover", min(lane.direct.inherited.get(at, 0), end), now_ms)
            lane.skip(at, "retention", start, now_ms)
            lane.direct.inherited.pop(at, None)

    def _turn_back(self, lane: Lane, at: TopicPartition, end: int, now_ms: int) -> None:
        """Go on at the end of a truncated log: its offsets come again, as a new generation.

        Who reads the copies must know, or it would take them for repeats. Spec: K9, K11.
        """
        log.warning("direct.truncated", topic=at.topic, partition=at.partition, end=end)
        batch, topic_id = lane.open(now_ms), lane.positions.topic_ids[at]
        generation = lane.generation(at)
        link = self._topics[at.topic].link
        source = Source(at, topic_id, MessageClass.DIRECT, link, generation)
        stop = stop_of(at, topic_id, StopReason.TRUNCATED, end, lane.position(at))
        goes_on = position_in_chain(generation + 1, end)
        announce(lane, batch, source, stop, own_provenance(lane, source), goes_on)
        lane.direct.inherited.pop(at, None)
        batch.read(at, topic_id, generation + 1, end, end - 1, 0, records=0)

    def lost(self, lanes: Mapping[int, Lane], places: Collection[TopicPartition]) -> None:
        """See to partitions whose position is outside their log. Spec: R6.

        They are assigned anew: then it shows what became of them.
        """
        for place in places:
            lane = lanes.get(place.partition % self.topology.nodes[self.node].lanes)
            if lane is not None and place in lane.sources:
                log.error("source.lost", topic=place.topic, partition=place.partition)
                self._leave(lane, place)
                self._topics[place.topic].info = None  # perhaps it was made anew
                self.last_read.doubt(place)  # or it has grown again before the look at its end

    # -- standing still -------------------------------------------------------------------

    @property
    def unread(self) -> Mapping[TopicPartition, NotRead]:
        """What is not read although it could be, and why."""
        return self._unread

    def _why(self, at: TopicPartition, link: LocalLink | None, now_ms: int) -> NotRead | None:
        lane = at.partition % self.topology.nodes[self.node].lanes
        if link is not None:
            return self.still.why_of_link(self.node, link.neighbour, at, lane, now_ms)
        is_guaranteed = self._topics[at.topic].message_class is MessageClass.GUARANTEED
        return self.still.why(at, lane, is_guaranteed=is_guaranteed)

    def rest(self, lane: Lane, link: LocalLink, until_ms: int, now_ms: int) -> None:
        """Read nothing of a link for this lane until then, if that is still to come."""
        if until_ms <= now_ms:
            return
        for at, source in lane.sources.items():
            if source.link == link:
                self.still.resting[at] = until_ms
        self.settle({lane.number: lane}, now_ms)

    def wait(self, lane: Lane, at: TopicPartition, now_ms: int) -> None:
        """Read no further here: the next message has a subject of which nothing is to be taken."""
        self.still.waiting[at] = None
        self.settle({lane.number: lane}, now_ms)

    def settle(self, lanes: Mapping[int, Lane], now_ms: int) -> None:
        """Read exactly what is not to stand still; the others go on where they stood."""
        for lane in lanes.values():
            for at, source in lane.sources.items():
                reason = self._why(at, source.link, now_ms)
                if reason is not None:
                    if at not in self._unread:
                        self.readers[self._topics[at.topic].kafka].unassign([at])
                        self.intake.forget([at])
                    self._unread[at] = reason
                elif at in self._unread:
                    del self._unread[at]
                    self._read(self._topics[at.topic].kafka, {at: begin_of(lane, at)})


def _is_early(lane: Lane, at: TopicPartition, now_ms: int) -> bool:
    """Say whether a former owner may still use what it had reserved: where the log ends then."""
    return now_ms - lane.taken_ms <= RESERVED_MS and at in lane.direct.inherited


def _bounds(
    admin: Admin,
    places: Sequence[TopicPartition],
    read: Mapping[TopicPartition, Known],
) -> Bounds:
    """Ask where logs begin and end; those that have lost their end end where they did then.

    What has come in the place of the records that were lost does not count, whether it reaches as
    far as those did or not: it was not read.

    Partitions that have no leader now are left out: they keep nobody from reading the others.

    Args:
        admin: Of their Kafka cluster.
        places: The partitions.
        read: What is known of what was read of them last.
    """
    starts, have_starts = as_far_as_told(partial(admin.starts, places))
    told, have_ends = as_far_as_told(partial(admin.ends, places))
    known = [at for at in places if (have_starts or at in starts) and (have_ends or at in told)]
    ends = dict(told)
    for at, last in read.items():
        end = ends.get(at, last.position)
        if at in known and (last.is_doubted or end < last.position):
            ends[at] = admin.agrees_until(at, last.epoch, min(end, last.position))
    return {at: (starts.get(at), ends.get(at)) for at in known}


def _look(admin: Admin, at: TopicPartition) -> tuple[TopicInfo | None, int | None]:
    return admin.describe([at.topic]).get(at.topic), admin.starts([at]).get(at)
