"""How much waits for each neighbour, and what happens when that reaches its limit. Spec: R14.

A lane counts what it writes, and checks now and then how far the outbox and its reader have come.
Kafka is queried beside the loop: a look judges by what was written when the query was sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from mesh.errors import TransportError
from mesh.lane.lane import Lane
from mesh.lane.target_holds import hold
from mesh.model.control import LinkState
from mesh.model.effects import Relinked
from mesh.model.frames import MessageClass
from mesh.model.inputs import Input, OutboxFull
from mesh.model.topology import LinkLimit, Topology, WhenFull
from mesh.transport.port import Admin, KafkaCluster, TopicPartition
from mesh.worker.lanes.owned import Lanes
from mesh.worker.limits.backlog import RELIEF, Counts, Written, limit_of_lane, written_to
from mesh.worker.limits.endpoints import EndpointBacklogs

LOOK_MS = 500

log = structlog.get_logger()


@dataclass(slots=True)
class Backlogs:
    """Watches the limited targets of this worker's lanes; each lane has its part.

    Attributes:
        topology, node: Whose.
        home: The node's own Kafka cluster.
        lanes: What this worker owns.
        full: Lane and neighbour -> what is full, for people.
    """

    topology: Topology
    node: str
    home: KafkaCluster
    lanes: Lanes
    full: dict[tuple[int, str], str] = field(default_factory=dict)
    _limits: Mapping[str, LinkLimit] = field(init=False)
    _endpoints: EndpointBacklogs = field(init=False)
    _counts: Counts = field(default_factory=Counts)
    _looked_ms: int = -LOOK_MS
    _asked: Written | None = None

    def __post_init__(self) -> None:
        """Find the limits of the node's own outboxes; endpoints are handled separately."""
        self._endpoints = EndpointBacklogs(self.topology, self.node, self.home, self.lanes)
        self._limits = self._of_outboxes()

    def _of_outboxes(self) -> Mapping[str, LinkLimit]:
        limits = self.topology.limits
        return {
            neighbour: limit
            for neighbour in self.topology.neighbours(self.node)
            if self.topology.sends(self.node, neighbour)
            and (limit := limits.get(frozenset((self.node, neighbour))))
            and limit.is_of_outbox
        }

    def relink(self, relinked: Relinked, now_ms: int) -> None:  # noqa: ARG002
        """Switch to the limits of another topology."""
        self.topology = self._endpoints.topology = relinked.topology
        self._limits = self._of_outboxes()

    def step(self, link_states: Mapping[str, LinkState], now_ms: int) -> Iterator[Input]:
        """Look again when it is time; yield which links and endpoints are full.

        Args:
            link_states: What neighbours have read of this node.
            now_ms: The present moment.
        """
        if not self._limits and self._asked is not None:
            self._asked = None
            self.lanes.sources.questions.forget("backlogs")
        if not (self._limits or self.full or self._endpoints.has_work or self._endpoints.is_asking):
            return
        is_due = now_ms - self._looked_ms >= LOOK_MS
        if not (is_due or self._asked is not None or self._endpoints.is_asking):
            return
        before = self._texts()
        if is_due:
            self._looked_ms = now_ms
            outboxes = [self._outbox(neighbour) for neighbour in self._limits]
            self._asked = self._asked or written_to(self.lanes.owned.values(), outboxes)
        for number, neighbour in list(self.full):
            if number not in self.lanes.owned or neighbour not in self._limits:
                del self.full[number, neighbour]
        try:
            self._judge_all(link_states, now_ms)
        except TransportError as error:
            self._asked = None
            log.warning("backlog.unknown", fault=str(error))
        if is_due or self._endpoints.is_asking:
            yield from self._endpoints.step(now_ms)
        self._act()
        after = self._texts()
        for neighbour in {**before, **after}:
            if before.get(neighbour) != after.get(neighbour):
                yield OutboxFull(neighbour, after.get(neighbour, ""))

    def _judge_all(self, link_states: Mapping[str, LinkState], now_ms: int) -> None:
        """Judge every outbox if Kafka has answered where they end."""
        if self._asked is None:
            return
        outboxes = [self._outbox(neighbour) for neighbour in self._limits]
        asking = partial(_ask, self.home.admin(), outboxes, list(self._asked))
        questions = self.lanes.sources.questions
        answer = questions.answer(("backlogs",), asking) if self._asked else ({}, {})
        if answer is None:
            return
        ids, ends = answer
        written, self._asked = self._asked, None
        for lane in list(self.lanes.owned.values()):
            for neighbour, limit in self._limits.items():
                outbox = self._outbox(neighbour)
                places = lane.places(outbox)
                if outbox in ids and all(written.get(at, (None, 0))[0] is lane for at in places):
                    told = {at: (ends[at], written[at][1]) for at in places if at in ends}
                    read = _read(link_states.get(neighbour), ids[outbox])
                    found = self._waiting(lane, ids[outbox], told, read, now_ms)
                    self._judge(lane, neighbour, limit, *found, now_ms)

    def _texts(self) -> Mapping[str, str]:
        return {neighbour: text for (_, neighbour), text in self.full.items()}

    def _judge(
        self,
        lane: Lane,
        neighbour: str,
        limit: LinkLimit,
        size: int,
        age_ms: int,
        now_ms: int,
    ) -> None:
        """Note whether a lane's part of an outbox is full; begin to hold it if that is wanted."""
        key = (lane.number, neighbour)
        part = RELIEF if key in self.full else 1.0
        size_max, age_max_ms = limit_of_lane(lane, limit.outbox_bytes, limit.outbox_age_s)
        is_full = size > size_max * part or age_ms > age_max_ms * part
        if not is_full:
            if self.full.pop(key, None) is not None:
                log.warning("outbox.relieved", lane=lane.number, neighbour=neighbour)
            return
        if key in self.full:
            return
        refused = limit.when_full is WhenFull.REJECT
        self.full[key] = f"outbox full: {limit.sizes}; " + (
            "nothing more is taken from clients" if refused else "this link waits alone"
        )
        log.warning("outbox.full", lane=lane.number, neighbour=neighbour, bytes=size, age_ms=age_ms)
        target = self._outbox(neighbour)
        if not refused and not lane.holds_target(target):
            hold(lane, target, now_ms)

    def _waiting(
        self,
        lane: Lane,
        topic_id: bytes,
        told: Mapping[TopicPartition, tuple[int, int]],
        read: Mapping[TopicPartition, int],
        now_ms: int,
    ) -> tuple[int, int]:
        """Return the bytes that wait in a lane's part of an outbox, and the age of the oldest.

        Args:
            lane: Whose outbox.
            topic_id: What it is now.
            told: Where its partitions end, and bytes written to them before the request was sent.
            read: How far its reader has come.
            now_ms: The present moment.
        """
        size, age_ms = 0, 0
        for at, (end, written) in told.items():
            backlog = self._counts.of(lane, at)
            backlog.follow_topic(topic_id, written)
            found, oldest_ms = backlog.look(end, read.get(at, 0), written, now_ms)
            size, age_ms = size + found, max(age_ms, oldest_ms)
        return size, age_ms

    def _outbox(self, neighbour: str) -> str:
        return self.lanes.names.outbox(self.node, neighbour, MessageClass.GUARANTEED)

    def _act(self) -> None:
        """While a link is full, take nothing from clients or write nothing to it."""
        refusing = set(self._endpoints.refusing)
        waiting = set(self._endpoints.waiting)
        for number, neighbour in self.full:
            if number not in self.lanes.owned:
                continue  # given up just now: the commit that was to hold this failed
            if self._limits[neighbour].when_full is WhenFull.REJECT:
                refusing.add(number)
            else:
                waiting.add((number, self._outbox(neighbour)))
        self.lanes.full = frozenset(waiting)
        gate = self.lanes.sources.gate
        if gate.refusing != refusing:
            gate.refusing = frozenset(refusing)
            self.lanes.sources.settle(self.lanes.owned, self._looked_ms)


def _read(state: LinkState | None, topic_id: bytes) -> Mapping[TopicPartition, int]:
    """Return how far a neighbour has read an outbox: of a recreated one it has read nothing yet."""
    return {
        TopicPartition(told.topic, told.partition): told.read
        for told in (state.positions if state is not None else ())
        if told.topic_id == topic_id
    }


def _ask(
    admin: Admin, topics: Sequence[str], places: Sequence[TopicPartition]
) -> tuple[Mapping[str, bytes], Mapping[TopicPartition, int]]:
    """Return ids of outboxes, and where their partitions end.

    The ids come first: if one is recreated meanwhile, its end is not taken for the former one's.
    """
    ids = {name: info.topic_id for name, info in admin.describe(topics).items()}
    return ids, admin.ends(places)
