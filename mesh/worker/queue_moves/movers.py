"""Messages of queues that nobody consumes here move to where somebody does. DESIGN 6.

The node's leader publishes with the heartbeat how much its consumers could still take in; a node
with messages that nobody consumes there moves them, each lane for itself. Groups are joined and
left beside the loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from mesh.core.local_links import LocalLink
from mesh.core.queues import Nearness
from mesh.core.routes import PUBLISHED_HERE
from mesh.errors import TransportError, TransportUnavailableError
from mesh.lane.lane import Lane
from mesh.model.control import LinkState, Version
from mesh.model.effects import Relinked
from mesh.model.frames import MessageClass
from mesh.model.inputs import Input
from mesh.model.queues import Attraction
from mesh.model.topology import Topology
from mesh.transport.port import Consumer, KafkaCluster, Record, TopicPartition
from mesh.worker.lanes.owned import Lanes
from mesh.worker.process.commits import CommitOutcome
from mesh.worker.process.errands import Errand, Steps
from mesh.worker.queue_moves.consumers import Consumers, SeenQueue, Told
from mesh.worker.queue_moves.joining import OpenedMover, open_mover
from mesh.worker.queue_moves.mover import CHUNK, GivenPart, Mover
from mesh.worker.queue_moves.moving import client_subject

RETRY_MS = 5_000
"""How long a mover that failed rests."""

KEPT_MAX_MS = 320_000
"""How long a node's consumers are left alone at most with what may not go elsewhere."""

REST_MS = 3_000
"""How long a mover with nothing to send stays in its group: what it is given rests with it,
although somebody else might consume it. Demands arrive once a second."""

_CLASSES = (MessageClass.GUARANTEED, MessageClass.DIRECT)

log = structlog.get_logger()


@dataclass(slots=True)
class Movers:
    """Looks for consumers, and moves messages, for the lanes that this worker owns.

    Attributes:
        topology, node: The mesh, and the node.
        home: The node's own Kafka cluster.
        lanes: What this worker owns.
    """

    topology: Topology
    node: str
    home: KafkaCluster
    lanes: Lanes
    _consumers: Consumers = field(init=False)
    _movers: dict[tuple[int, str], Mover] = field(default_factory=dict)
    _left: dict[tuple[int, str], tuple[str, Version, int]] = field(default_factory=dict)
    _rests_until_ms: dict[tuple[int, str], int] = field(default_factory=dict)
    _kept: dict[tuple[int, str], int] = field(default_factory=dict)
    _moved_ms: dict[tuple[int, str], int] = field(default_factory=dict)
    _ends_written: dict[tuple[int, str], Mapping[TopicPartition, int]] = field(default_factory=dict)
    _outbox_ids: Mapping[str, bytes] = field(default_factory=dict)
    _opening: tuple[tuple[int, str], Lane, Errand[OpenedMover]] | None = None
    _leaving: list[tuple[Errand[Mover], Mover]] = field(default_factory=list)
    _doubted: dict[tuple[int, str], Sequence[GivenPart]] = field(default_factory=dict)
    _left_behind: list[CommitOutcome] = field(default_factory=list)
    _near: Nearness = field(init=False)

    def __post_init__(self) -> None:
        """Look for consumers of the same queues."""
        self._near = Nearness(self.topology, self.node)
        self._consumers = Consumers(self.topology, self.node, self.home, self.lanes)

    @property
    def is_opening(self) -> bool:
        """Whether it has a lane's second writer just now."""
        return self._opening is not None

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for what a mover needs, or for a commit."""
        is_writing = self._movers and any(one.pending.is_any for one in self._movers.values())
        return self.is_opening or bool(is_writing)

    @property
    def is_writing(self) -> bool:
        """Whether a commit is under way, even of a mover that has since left its group."""
        are_left = any(not one.done() for one in self._left_behind)
        return are_left or any(not one.pending.is_through for one in self._movers.values())

    @property
    def members(self) -> Sequence[Consumer]:
        """The memberships of queues' groups that it has, or is giving up."""
        leaving = [mover for _, mover in self._leaving]
        return [one.consumer for one in [*self._movers.values(), *leaving]]

    def relink(self, relinked: Relinked, now_ms: int) -> None:
        """Switch to another topology, from the next look on.

        Over links that have been recreated chains start over, so movers join again; and a node that
        comes back under its name may number its demands from the start.
        """
        self.topology, self._near = relinked.topology, Nearness(relinked.topology, self.node)
        self._consumers.relink(relinked, now_ms)
        self._left = {key: one for key, one in self._left.items() if one[0] in self.topology.nodes}
        # Which messages may go where has changed, too.
        for key in [key for key, one in self._movers.items() if relinked.added or one.keeps_some]:
            self._leave(key)

    def step(
        self,
        link_states: Mapping[str, LinkState],
        now_ms: int,
        *,
        leads: bool,
        may_open: bool,
    ) -> Iterator[Input]:
        """Look again when it is time, and move some; yield what the node is to publish.

        Args:
            link_states: What neighbours have read of this node.
            now_ms: The present moment.
            leads: Whether this worker publishes for the node.
            may_open: Whether a lane's second writer is free just now.
        """
        if not self.lanes.machine.has_routed:
            return
        self._leaving = [one for one in self._leaving if not one[0].has_ended()]
        self._left_behind = [one for one in self._left_behind if not one.done()]
        told = self._consumers.look(self._written, now_ms)
        if told is not None:
            self._forget(told)
            yield from self._consumers.tell(leads=leads)
        for key in [key for key, one in self._movers.items() if not self._may_go_on(key, one.lane)]:
            self._leave(key)
        self._take_opened(now_ms)
        for queue, seen in self._consumers.seen.items():
            if seen.target is not None:
                for lane in list(self.lanes.owned.values()):
                    self._move(lane, queue, seen, link_states, now_ms, may_open=may_open)

    def close(self) -> None:
        """Leave the groups; the next owner of the lanes continues."""
        if self._opening is not None:
            self._opening[2].call_off()
            self._opening = None
        # The errand that leaves a group may have been called off before it began.
        for one in [*self._movers.values(), *(mover for _, mover in self._leaving)]:
            one.close()
        self._movers.clear()
        self._leaving.clear()

    def _written(self) -> Mapping[TopicPartition, int]:
        """Return how far outboxes must be read until all that movers wrote there is read."""
        ends_written: dict[TopicPartition, int] = {}
        movers = [one.ends_written for one in self._movers.values()]
        for written in [*movers, *self._ends_written.values()]:
            for at, end in written.items():
                ends_written[at] = max(end, ends_written.get(at, 0))
        return ends_written

    def _forget(self, told: Told) -> None:
        """Forget queues that are gone, and what outboxes have lost."""
        rests = (self._rests_until_ms, self._kept, self._moved_ms)
        for known in (self._left, self._ends_written, *rests):
            for key in [key for key in known if key[1] not in self._consumers.seen]:
                del known[key]
        for mover in self._movers.values():
            mover.ends_written = _not_lost(mover.ends_written, told)
        for key, written in self._ends_written.items():
            self._ends_written[key] = _not_lost(written, told)
        self._outbox_ids = told.topic_ids

    def _leave(self, key: tuple[int, str]) -> None:
        """Have a mover leave its group; an errand may have to do that."""
        if self._doubted.pop(key, None) is not None:
            self.lanes.sources.questions.forget("moved", *key)
        mover = self._movers.pop(key)
        if not mover.keeps_some:
            self._kept.pop(key, None)
        self._ends_written[key] = dict(mover.ends_written)
        self._close(mover)

    def _leave_what_stays(self, key: tuple[int, str], now_ms: int) -> None:
        """Have a mover leave what may not go to others who consume here, each time for longer.

        Each joining takes from them what they have at hand: a consumer that needs longer for a
        message than the mover is away would be given it again and again.
        """
        times = self._kept[key] = self._kept.get(key, 0) + 1
        self._rests_until_ms[key] = now_ms + min(KEPT_MAX_MS, RETRY_MS << min(times - 1, 10))
        self._leave(key)

    def _close(self, mover: Mover) -> None:
        if (outcome := mover.pending.outcome) is not None:
            self._left_behind.append(outcome)
        errand = self.lanes.errands.begin(_closing(mover))
        if not errand.has_ended():
            self._leaving.append((errand, mover))

    # -- what moves -------------------------------------------------------------------------

    def _may_go_on(self, key: tuple[int, str], lane: Lane) -> bool:
        seen = self._consumers.seen.get(key[1])
        return self.lanes.owns(lane) and seen is not None and seen.target is not None

    def _move(
        self,
        lane: Lane,
        queue: str,
        seen: SeenQueue,
        link_states: Mapping[str, LinkState],
        now_ms: int,
        *,
        may_open: bool,
    ) -> None:
        """Have one lane send on what waits for its queue, as much as link and target take now.

        The previous batch must be committed first, and nothing is sent while sources hold. The
        target member was chosen before (`seen.target`); this decides whether something goes now.

        Args:
            lane: The lane; it moves its share of the queue.
            queue: Its name.
            seen: What is known of the queue, and where its messages are to go.
            link_states: How each link is.
            now_ms: The present moment.
            may_open: Whether a mover may be opened, or another one has the turn.
        """
        key = (lane.number, queue)
        target = seen.target
        if target is None or now_ms < self._rests_until_ms.get(key, now_ms):
            return
        try:
            mover = self._movers.get(key)
            if mover is not None and mover.pending.is_any:
                if not mover.pending.is_through:
                    return
                self._end_move(key, mover)
            # What is sent while sources hold would still be on its way when its walk changes. K28
            is_held = self.lanes.sources.gate.holding
            link = None if is_held else self._link_to(target, lane)
            most = self._may_send(key, seen, link, link_states) if link is not None else 0
            if link is None or most <= 0:
                if mover is not None:
                    self._rest(key, mover, now_ms)
                return
            self._moved_ms[key] = now_ms
            if mover is None:
                if may_open:
                    self._open(lane, queue, now_ms)
                mover = self._movers.get(key)
            if mover is None or not self._prove(key, mover):
                return
            if mover.keeps_some and (seen.consumers or mover.kept_from != target.address):
                self._leave_what_stays(key, now_ms)
                return
            may_go = partial(self._may_go, target.node)
            mover.begin_to_move(link, target.address, most, self.lanes.commits, may_go)
            if mover.pending.is_any and mover.pending.is_through:
                self._end_move(key, mover)
        except TransportError as error:
            log.warning("queue.not_moved", queue=queue, lane=lane.number, fault=str(error))
            self._rests_until_ms[key] = now_ms + RETRY_MS
            if key in self._movers:
                self._leave(key)

    def _may_go(self, node: str, record: Record) -> bool:
        """Return whether no node on the way keeps the subject of a message local. Spec: EMS-11."""
        if not self.topology.interest or not (subject := client_subject(record)):
            return True
        return self._near.is_open(node, subject, MessageClass.GUARANTEED)

    def _prove(self, key: tuple[int, str], mover: Mover) -> bool:
        """Return whether a mover's records are proven to be of its topic; ask brokers if not.

        Ids are never reused, so a look that begins after the fetch is proof.

        Raises:
            TransportError: It is of another topic, or brokers do not answer: close the mover.
        """
        if not (doubted := mover.doubted):
            return True
        asked = self._doubted.setdefault(key, doubted)
        topic = self.lanes.names.endpoint(self.node, mover.queue)
        asking = partial(self.home.admin().describe, [topic])
        told = self.lanes.sources.questions.answer(("moved", *key), asking)
        if told is None:
            return False
        del self._doubted[key]
        if topic not in told or told[topic].topic_id != mover.topic_id:
            raise TransportUnavailableError(f"topic {topic} was deleted while it was read")
        for part in asked:
            part.know()
        return not mover.doubted

    def _end_move(self, key: tuple[int, str], mover: Mover) -> None:
        """Record what has been moved: that much less may be sent."""
        name, version, left = self._left[key]
        self._left[key] = (name, version, left - mover.end_move())

    def _open(self, lane: Lane, queue: str, now_ms: int) -> None:
        """Have a mover join its group; one at a time, since it needs the lane's second writer."""
        if self._opening is None:
            steps = open_mover(self.home, self.lanes.recall, lane, queue)
            self._opening = (lane.number, queue), lane, self.lanes.errands.begin(steps)
            self._take_opened(now_ms)

    def _take_opened(self, now_ms: int) -> None:
        """Start a mover that has joined its group by now."""
        if self._opening is None or not self._opening[2].has_ended():
            return
        (key, lane, errand), self._opening = self._opening, None
        try:
            opened = errand.result()
        except TransportError as error:
            log.warning("queue.not_moved", queue=key[1], lane=key[0], fault=str(error))
            self._rests_until_ms[key] = now_ms + RETRY_MS
            return
        mover = opened.begin(lane, key[1])
        if mover is None:
            return  # the queue has no topic yet
        if self._may_go_on(key, lane):
            mover.ends_written.update(self._ends_written.pop(key, {}))
            self._movers[key] = mover
        else:
            self._close(mover)

    def _rest(self, key: tuple[int, str], mover: Mover, now_ms: int) -> None:
        """Have a mover take nothing more; after a while it leaves until there is work again."""
        if now_ms - self._moved_ms.get(key, now_ms) < REST_MS:
            mover.rest()
        else:
            self._leave(key)

    def _link_to(self, target: Attraction, lane: Lane) -> LocalLink | None:
        """Return the link on the way to a member; None if messages cannot go there just now.

        A member that is down, however far away, is no target: direct messages would not go there
        either. Messages that need not wait there stay where somebody may consume them.
        """
        route, live = (lane.router.route(target.address, PUBLISHED_HERE, one) for one in _CLASSES)
        if len(route.neighbours) != 1 or tuple(live.neighbours) != tuple(route.neighbours):
            return None
        if lane.router.conduct(route.neighbours[0]).direct is not None:
            return None
        link = lane.link(route.neighbours[0])
        outbox = lane.names.outbox(lane.node, link.neighbour, MessageClass.GUARANTEED)
        is_full = (lane.number, outbox) in self.lanes.full
        return None if is_full or lane.holds_target(outbox) else link

    def _may_send(
        self,
        key: tuple[int, str],
        seen: SeenQueue,
        link: LocalLink,
        link_states: Mapping[str, LinkState],
    ) -> int:
        """Return how many messages a mover may send now: its share of what the target demands.

        A newer demand counts only once the neighbour has read everything sent for the previous one:
        so at most two of them are ever under way.
        """
        name = "" if seen.target is None else seen.target.node
        share = CHUNK
        if seen.room is not None:
            lanes = self.topology.nodes[self.node].lanes
            share = seen.room // lanes + (1 if key[0] < seen.room % lanes else 0)
        known, version, left = self._left.get(key, ("", (0, 0), 0))
        is_newer = name != known or seen.room is None or version < seen.version
        if is_newer and self._is_read(key, link, link_states):
            left = share
            self._left[key] = (name, seen.version, left)
        elif name != known:
            return 0
        return left

    def _is_read(
        self, key: tuple[int, str], link: LocalLink, link_states: Mapping[str, LinkState]
    ) -> bool:
        mover = self._movers.get(key)
        written = self._ends_written.get(key, {}) if mover is None else mover.ends_written
        state = link_states.get(link.neighbour)
        read = {
            TopicPartition(told.topic, told.partition): told.read
            for told in (state.positions if state is not None else ())
            if self._outbox_ids.get(told.topic, told.topic_id) == told.topic_id
        }
        names = self.lanes.names
        outboxes = [names.outbox(self.node, link.neighbour, one) for one in MessageClass]
        ends_written = {at: end for at, end in written.items() if at.topic in outboxes}
        return all(read.get(at, 0) >= end for at, end in ends_written.items())


def _not_lost(ends_written: Mapping[TopicPartition, int], told: Told) -> dict[TopicPartition, int]:
    """Return how far outboxes must still be read: what one has lost is not waited for."""
    return {
        at: end
        for at, end in ends_written.items()
        # What was written since may lie beyond the requested end.
        if end > told.ends_written.get(at, -1) or told.ends.get(at, 0) >= end
    }


def _closing(mover: Mover) -> Steps[Mover]:
    try:
        yield
    finally:
        mover.close()
    return mover
