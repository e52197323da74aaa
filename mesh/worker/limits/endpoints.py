"""How much waits in endpoints, and what happens when that reaches its limit. Spec: R14.

The reader of an endpoint is the slowest consumer group of its clients. Finding it costs a Kafka
request per group, so it is done rarely, only where there is a limit, and beside the loop like
every other request here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from mesh.errors import TransportError
from mesh.lane.lane import Lane
from mesh.lane.target_holds import hold
from mesh.model.control import EndpointStatus
from mesh.model.frames import MessageClass
from mesh.model.inputs import EndpointSeen, Input
from mesh.model.state import LossReason
from mesh.model.topology import EndpointLimit, Topology, WhenFull
from mesh.model.words import EndpointWord
from mesh.transport.port import Admin, KafkaCluster, TopicPartition
from mesh.worker.lanes.overfull import Overfull
from mesh.worker.lanes.owned import Lanes
from mesh.worker.limits.backlog import (
    RELIEF,
    Backlog,
    Counts,
    Written,
    limit_of_lane,
    written_to,
)
from mesh.worker.topics.readership import passed_by_all

LOOK_MS = 5_000
"""How often to query groups; where the endpoints end is noted at every step."""

log = structlog.get_logger()

_THEN = {
    WhenFull.STOP: "it waits alone",
    WhenFull.REJECT: "it waits, and nothing more is taken from clients",
    WhenFull.DEAD_LETTER: "the oldest become dead letters",
}


_Offsets = Mapping[TopicPartition, int]


def _held(lane: Lane) -> Iterator[EndpointStatus]:
    """Yield the endpoints that a lane does not write, and the reason, as far as it is known."""
    unwritable = lane.unwritable.of_lane(lane.number, lane.lanes)
    for name in lane.learner.classes if unwritable or lane.holds_any else ():
        topic = lane.names.endpoint(lane.node, name)
        cause = f": {unwritable[topic]}" if topic in unwritable else ""
        if lane.is_guaranteed(name) and lane.holds_target(topic):
            then = "what it lacks is written once it takes records again"
        elif cause and not lane.is_guaranteed(name):
            then = "what comes for it meanwhile is discarded"
        else:
            continue
        yield EndpointStatus(name, EndpointWord.HELD, f"{topic} cannot be written{cause}; {then}")


@dataclass(frozen=True, slots=True)
class _Seen:
    """A partition of an endpoint as the last look found it.

    Attributes:
        end: Offset after its last entry.
        passed: What the slowest group wants next.
        written: Bytes written to it before the request was sent.
        topic_id: Id of its topic.
    """

    end: int
    passed: int
    written: int
    topic_id: bytes


@dataclass(slots=True)
class EndpointBacklogs:
    """Watches the endpoints of this worker's lanes: those with limits, and those not written.

    Each lane has an equal part of a limit in bytes.

    Attributes:
        topology, node: Whose.
        home: The node's own Kafka cluster.
        lanes: What this worker owns.
        full: Lane and endpoint -> what is full, for people.
    """

    topology: Topology
    node: str
    home: KafkaCluster
    lanes: Lanes
    full: dict[tuple[int, str], str] = field(default_factory=dict)
    _counts: Counts = field(default_factory=Counts)
    _told: dict[str, EndpointStatus] = field(default_factory=dict)
    _looked_ms: int = -LOOK_MS
    _noted: Written | None = None
    _looked_at: Written | None = None

    @property
    def has_work(self) -> bool:
        """Whether there is anything to look at, or to withdraw."""
        holds = any(lane.holds_any for lane in self.lanes.owned.values())
        return bool(
            self.topology.waiting_limits or holds or self.lanes.refusals.unwritable or self._told
        )

    @property
    def waiting(self) -> frozenset[tuple[int, str]]:
        """Lanes and topics of endpoints to hold until less waits there."""
        endpoints = self.lanes.machine.learner.clients.wanted.endpoints
        return frozenset(
            (number, self._topic(endpoint))
            for number, endpoint in self.full
            if endpoint in endpoints and not self._is_lossy(endpoint)
        )

    @property
    def refusing(self) -> frozenset[int]:
        """Lanes that must not take guaranteed messages from clients."""
        return frozenset(
            number
            for number, endpoint in self.full
            if (limit := self.topology.endpoint_limit(self.node, endpoint)) is not None
            and limit.when_full is WhenFull.REJECT
        )

    def step(self, now_ms: int) -> Iterator[Input]:
        """Look again when it is time; yield which endpoints are full."""
        limits = self._limits() if self.topology.waiting_limits else {}
        if now_ms - self._looked_ms < LOOK_MS:
            self._note(limits, now_ms)
            return
        self._looked_ms = now_ms
        for number, endpoint in list(self.full):
            if number not in self.lanes.owned or endpoint not in limits:
                del self.full[number, endpoint]
        try:
            self._look(limits, now_ms)
        except TransportError as error:
            log.warning("endpoints.unknown", fault=str(error))
        yield from self._tell(limits)

    def _limits(self) -> Mapping[str, EndpointLimit]:
        """Return the limits of the guaranteed endpoints that there are."""
        return {
            name: limit
            for name, endpoint in self.lanes.machine.learner.clients.wanted.endpoints.items()
            if endpoint.message_class is MessageClass.GUARANTEED
            and (limit := self.topology.endpoint_limit(self.node, name)) is not None
        }

    def _note(self, limits: Mapping[str, EndpointLimit], now_ms: int) -> None:
        """Note where the endpoints end now: the more moments, the better the count."""
        if self._noted is None:
            written = written_to(self.lanes.owned.values(), map(self._topic, limits))
            self._noted = {at: one for at, one in written.items() if self._counts.has(one[0], at)}
        ends: Mapping[TopicPartition, int] | None = {}
        try:
            if self._noted:
                asking = partial(self.home.admin().ends, list(self._noted))
                ends = self.lanes.sources.questions.answer(("noted",), asking)
        except TransportError:
            ends = {}  # the next look will show
        if ends is None:
            return
        noted, self._noted = self._noted, None
        for at, end in ends.items():
            lane, bytes_ = noted[at]
            if self._counts.has(lane, at):
                self._counts.of(lane, at).note(end, bytes_, now_ms)

    @property
    def is_asking(self) -> bool:
        """Whether an answer is outstanding, which is taken in the next turn."""
        return self._noted is not None or self._looked_at is not None

    def _forget(self) -> None:
        """Discard the answers to earlier requests."""
        self._noted = self._looked_at = None
        for what in ("noted", "consumed"):
            self.lanes.sources.questions.forget(what)

    def _look(self, limits: Mapping[str, EndpointLimit], now_ms: int) -> None:
        """Ask how far limited endpoints are read, and judge each lane's part by the answer.

        What lanes have written is noted before the request is sent, so that nothing that came in
        between counts as waiting.
        """
        if not limits:
            self._forget()
            return
        if self._looked_at is None:
            self._forget()  # a late older answer would look like a log that lost its end
            self._looked_at = written_to(self.lanes.owned.values(), map(self._topic, limits))
        written = self._looked_at
        besides = {self.lanes.names.lanes_group(node) for node in self.topology.nodes}
        topics = [self._topic(name) for name in limits]
        asking = partial(_ask, self.home.admin(), topics, besides, list(written))
        try:
            told = self.lanes.sources.questions.answer(("consumed",), asking)
        except TransportError:
            self._looked_at = None
            raise
        if told is None:
            self._looked_ms = now_ms - LOOK_MS  # the next turn takes the answer
            return
        self._looked_at = None
        ids, read, ends, starts = told
        for lane in list(self.lanes.owned.values()):
            asked = {at: bytes_ for at, (one, bytes_) in written.items() if one is lane}
            for name, limit in limits.items() if asked else ():
                topic = self._topic(name)
                seen = {
                    at: _Seen(
                        ends[at], max(read.get(at, 0), starts.get(at, 0)), asked[at], ids[topic]
                    )
                    for at in lane.places(topic)
                    if at in asked and at in ends and topic in ids
                }
                self._judge(lane, name, limit, seen, now_ms)

    def _judge(
        self,
        lane: Lane,
        endpoint: str,
        limit: EndpointLimit,
        seen: Mapping[TopicPartition, _Seen],
        now_ms: int,
    ) -> None:
        """Note whether a lane's part of an endpoint is full, and start acting on it."""
        size, age_ms = 0, 0
        for at, one in seen.items():
            backlog = self._backlog(lane, at, limit)
            backlog.follow_topic(one.topic_id, one.written)
            found, oldest_ms = backlog.look(one.end, one.passed, one.written, now_ms)
            size, age_ms = size + found, max(age_ms, oldest_ms)
        size_max, age_max_ms = limit_of_lane(lane, limit.size, limit.age_s)
        key = (lane.number, endpoint)
        part = RELIEF if key in self.full and not limit.is_exact else 1.0
        if size <= size_max * part and age_ms <= age_max_ms * part:
            if self.full.pop(key, None) is not None:
                log.warning("endpoint.relieved", lane=lane.number, endpoint=endpoint)
            return
        if key not in self.full:
            self.full[key] = f"endpoint full: {limit.sizes}; {_THEN[limit.when_full]}"
            log.warning(
                "endpoint.full", lane=lane.number, endpoint=endpoint, bytes=size, age_ms=age_ms
            )
        if limit.when_full is WhenFull.DEAD_LETTER:
            is_size = size > size_max * part
            reason = LossReason.ENDPOINT_FULL if is_size else LossReason.ENDPOINT_EXPIRED
            self._displace(lane, endpoint, reason, limit, seen, now_ms)
            return
        target = self._topic(endpoint)
        if not lane.holds_target(target):
            hold(lane, target, now_ms)

    def _displace(
        self,
        lane: Lane,
        endpoint: str,
        reason: LossReason,
        limit: EndpointLimit,
        seen: Mapping[TopicPartition, _Seen],
        now_ms: int,
    ) -> None:
        """Displace the oldest messages until half of the limit is free."""
        if any(at in self.lanes.overfull for at in seen):
            return  # what a predecessor left comes first
        size_max, age_max_ms = limit_of_lane(lane, limit.size, limit.age_s)
        for at, one in seen.items():
            keep = size_max * RELIEF / len(seen)
            age_ms = age_max_ms if limit.is_exact else age_max_ms * RELIEF
            until = self._counts.of(lane, at).beyond(keep, age_ms, one.written, now_ms)
            if until > one.passed:
                self.lanes.overfull[at] = Overfull(
                    lane, endpoint, at, one.passed, until, reason, one.topic_id
                )

    def _backlog(self, lane: Lane, at: TopicPartition, limit: EndpointLimit) -> Backlog:
        """Return the count of a partition."""
        if limit.when_full is WhenFull.DEAD_LETTER and not self._counts.has(lane, at):
            # The lane's former owner may have died between dead letters and deletion.
            endpoint = self.lanes.names.endpoint_of(self.node, at.topic)
            self.lanes.overfull[at] = Overfull(lane, endpoint, at, 0, 0, "", b"")
        return self._counts.of(lane, at)

    def _tell(self, limits: Mapping[str, EndpointLimit]) -> Iterator[Input]:
        """Yield what is new for people and clients."""
        now: dict[str, EndpointStatus] = {}
        for name, limit in limits.items():
            lost = self.lanes.pushed_out.get(name, 0)
            texts = [text for (_, endpoint), text in self.full.items() if endpoint == name]
            if limit.when_full is WhenFull.DEAD_LETTER and lost:
                text = f"{lost} messages became dead letters: {limit.sizes}"
                now[name] = EndpointStatus(name, EndpointWord.LOSSY, text)
            elif texts:
                now[name] = EndpointStatus(name, EndpointWord.FULL, texts[0])
        for lane in self.lanes.owned.values():
            for status in _held(lane):
                now.setdefault(status.endpoint, status)
        for name in {**self._told, **now}:
            if self._told.get(name) != now.get(name):
                yield EndpointSeen(name, now.get(name))
        self._told = now

    def _is_lossy(self, endpoint: str) -> bool:
        limit = self.topology.endpoint_limit(self.node, endpoint)
        return limit is None or limit.when_full is WhenFull.DEAD_LETTER

    def _topic(self, endpoint: str) -> str:
        return self.lanes.names.endpoint(self.node, endpoint)


def _ask(
    admin: Admin, topics: Sequence[str], besides: Collection[str], places: Sequence[TopicPartition]
) -> tuple[Mapping[str, bytes], _Offsets, _Offsets, _Offsets]:
    """Return ids of topics, positions of slowest groups, and where partitions end and begin.

    The ids come first: if a topic is recreated meanwhile, nothing found is attributed to it.
    """
    ids = {name: info.topic_id for name, info in admin.describe(topics).items()}
    read = passed_by_all(admin, topics, besides)
    return ids, read, admin.ends(places), admin.starts(places)
