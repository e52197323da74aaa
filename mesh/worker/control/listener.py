"""Control records of the node and its neighbours, as inputs of the node machine.

Spec: K13, K22-K24, K32.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import structlog

from mesh.core.read_positions import ReadPositions
from mesh.errors import DecodeError, ProtocolError
from mesh.lane.faults import RequestedRepair, inputs_of
from mesh.lane.progress import versions
from mesh.model.control import (
    NO_TOPIC,
    UNREADABLE_INTEREST,
    LinkState,
    Mark,
    OutboxPosition,
    Subscription,
)
from mesh.model.effects import Relinked
from mesh.model.facts import InterestInForce
from mesh.model.frames import MessageClass
from mesh.model.inputs import (
    AckRead,
    AdvertRead,
    BeatRead,
    ClientsCaughtUp,
    ClientsReset,
    Input,
    LaneApplied,
    LinkDisabled,
    LinkEnabled,
    MarkRead,
    NeighbourCaughtUp,
    NeighbourReset,
    NeighbourUnproven,
    OwnAdvertRead,
    OwnBeatRead,
    OwnControlCaughtUp,
    OwnControlReset,
    OwnMarkRead,
    StreamReset,
    SubscriptionElsewhere,
    SubscriptionRead,
    SubscriptionRefused,
)
from mesh.model.names import name_fault
from mesh.model.subject import filter_fault
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.port import Admin, Reader, Record, TopicPartition
from mesh.wire.control import (
    decode_acknowledgement,
    decode_advert,
    decode_heartbeat,
    decode_link_state,
    decode_mark,
    decode_repair_request,
)
from mesh.wire.keys import (
    NEIGHBOUR_KEYS,
    NODE_KEYS,
    AckKey,
    AdvertKey,
    HeartbeatKey,
    IdentityKey,
    LinkKey,
    LinksKey,
    MarkKey,
    RepairKey,
    StopKey,
    SubscribedKey,
    heartbeat_key,
    link_key,
    parse_key,
    parse_subscription_key,
)
from mesh.wire.state import decode_fact
from mesh.wire.subscriptions import decode_subscription
from mesh.worker.control.feeds import ControlFeed, Feeds
from mesh.worker.control.identities import about_links
from mesh.worker.control.leader_records import LeaderRecords
from mesh.worker.control.orders import NodeOrders
from mesh.worker.process.intake import Intake
from mesh.worker.process.questions import Questions
from mesh.worker.topics.own_topics import LOOK_MS, OwnTopics, control_topics

PERIODIC = (heartbeat_key(), link_key())
"""Keys of what neighbours write each second, whatever happens."""

T = TypeVar("T")
N = TypeVar("N")

log = structlog.get_logger()


@dataclass(slots=True)
class Listener:
    """Follows every control topic that a worker needs, and decodes its records.

    Attributes:
        topology, node: The mesh, and the node it listens for.
        admins, readers, intake, questions, started_ms: See `Feeds`.
        link_states: What each neighbour has reported about this node's outboxes. Spec: K24.
        asked: Open repair requests, by neighbour and record key. Spec: K11.
        orders: What operators want of the node.
        peers: How far all lanes of the node have read, if there are several.
        records: What this worker, if it leads, writes on the control topic besides its offers.
    """

    topology: Topology
    node: str
    admins: Mapping[str, Admin]
    readers: Mapping[str, Reader]
    intake: Intake
    questions: Questions
    started_ms: int
    link_states: dict[str, LinkState] = field(default_factory=dict)
    asked: dict[tuple[str, bytes], RequestedRepair] = field(default_factory=dict)
    orders: NodeOrders = field(init=False)
    refused: int = 0
    peers: ReadPositions = field(default_factory=ReadPositions)
    records: LeaderRecords = field(default_factory=LeaderRecords)
    _neighbours: dict[str, str] = field(default_factory=dict)
    _closed: frozenset[str] = frozenset()
    _tells_again: bool = False
    _news: list[Input] = field(default_factory=list)
    _own: OwnTopics = field(init=False)
    _feeds: Feeds = field(init=False)
    _wanted: ControlFeed = field(init=False)
    _elsewhere: list[ControlFeed] = field(default_factory=list)
    _doubted_ms: int = field(init=False)

    def __post_init__(self) -> None:
        """List the topics; they are looked for as time passes."""
        self.orders, self._doubted_ms = NodeOrders(self.node), self.started_ms
        self._feeds = Feeds(
            self.admins,
            self.readers,
            self.intake,
            self.questions,
            self.started_ms,
            self._may_read,
        )
        names = TopicNames(self.topology.prefix)
        nodes = self.topology.nodes
        own = nodes[self.node].kafka
        read, reset, clients = ClientsCaughtUp(), ClientsReset(), names.clients(self.node)
        self._add(clients, own, self._clients, read, reset, forget=self._forget_elsewhere)
        again, take = self.orders.begin_again, self.orders.take
        self._wanted = self._add(names.config(), own, take, None, forget=again)
        control, caught_up = names.control(self.node), OwnControlCaughtUp()
        self._add(control, own, self._own_control, caught_up, OwnControlReset())
        if (lanes := nodes[self.node].lanes) > 1:
            # With one lane its owner knows by itself; with more, lane 0 waits for the others.
            for lane in range(lanes):
                self._add(names.progress(self.node), own, self._progress, None, partition=lane)
        self._own = OwnTopics(
            *(self.topology, self.node, self.admins[own], self.questions, self.started_ms),
            control_topics,
            "control",
        )
        for other in self.topology.neighbours(self.node):
            self._listen_to(other, self.started_ms)

    def _listen_to(self, other: str, now_ms: int) -> None:
        names, kafka = TopicNames(self.topology.prefix), self.topology.nodes[other].kafka
        self._neighbours[names.outbox(other, self.node, MessageClass.GUARANTEED)] = other
        control, stream = names.control(other), names.to_control(other, self.node)
        take, hear = self._control_of(other), self._stream_of(other)
        caught_up, reset = NeighbourCaughtUp(other), NeighbourReset(other)
        self._add(control, kafka, take, caught_up, reset, neighbour=other, since_ms=now_ms)
        # After a second reading ends of requests may be missing: tombstones do not last.
        forget = partial(self._forget_asked, other)
        told = StreamReset(other)
        self._add(stream, kafka, hear, None, told, neighbour=other, since_ms=now_ms, forget=forget)

    def relink(self, relinked: Relinked, now_ms: int) -> None:
        """Drop removed neighbours, and read new ones from the beginning. Spec: K28."""
        self.topology = self._own.topology = relinked.topology
        self._feeds.remove_of(relinked.gone)
        self._closed -= frozenset(relinked.gone)  # a link that returns closed is reported again
        for name in relinked.gone:
            self.link_states.pop(name, None)
        for topic in [one for one, name in self._neighbours.items() if name in relinked.gone]:
            del self._neighbours[topic]
        for name in relinked.gone:
            self._forget_asked(name)
        for name in relinked.added:
            self._listen_to(name, now_ms)

    def _add(
        self,
        topic: str,
        kafka: str,
        decode: Callable[[Record], Iterator[Input]],
        caught_up: Input | None,
        reset: Input | None = None,
        *,
        partition: int = 0,
        neighbour: str = "",
        since_ms: int = 0,
        forget: Callable[[], None] | None = None,
    ) -> ControlFeed:
        place = TopicPartition(topic, partition)
        feed = ControlFeed(place, kafka, decode, caught_up, reset, neighbour, since_ms, forget)
        return self._feeds.add(feed)

    @property
    def knows_orders(self) -> bool:
        """Whether everything that operators wanted before the start is known."""
        return self._wanted.told

    @property
    def clients_read(self) -> bytes | None:
        """The id of the topic from which subscriptions were read, as far as it is known."""
        found = self._feeds[TopicNames(self.topology.prefix).clients(self.node)].topic_id
        return None if found == NO_TOPIC else found

    def read_by_peers(self, neighbour: str) -> Mapping[TopicPartition, OutboxPosition]:
        """Return how far all lanes of the node have read a neighbour's outboxes."""
        names = TopicNames(self.topology.prefix)
        classes = tuple(MessageClass)
        return self.peers.of_topics([names.outbox(neighbour, self.node, c) for c in classes])

    def has(self, topic: str, partition: int) -> bool:
        """Return whether records of this partition are for the listener."""
        return self._feeds.of(topic, partition) is not None

    def may_wait(self, record: Record) -> bool:
        """Return whether nobody waits for a record: for a heartbeat, or a word of the link.

        Whatever else is read comes first, and so does what a topic held before it was followed.
        """
        if record.key() not in PERIODIC:
            return False
        feed = self._feeds.of(record.topic(), record.partition())
        return feed is not None and feed.told

    def take(self, record: Record) -> Iterator[Input]:
        """Yield what a record means. A record that breaks the rules is counted and skipped."""
        feed = self._feeds.of(record.topic(), record.partition())
        if feed is None or not feed.assigned:
            return  # read before its link was removed
        feed.next = record.offset() + 1
        try:
            yield from feed.decode(record)
        except Exception as error:  # noqa: BLE001 - whatever a stranger wrote is data
            self.refused += 1
            log.warning(
                "control.refused", topic=record.topic(), offset=record.offset(), fault=str(error)
            )

    def follow(self, now_ms: int) -> Iterator[Input]:
        """Assign topics that have appeared; yield those that have been read to their end. K23."""
        news, self._news = self._news, []
        names = TopicNames(self.topology.prefix)
        yield from news
        for topic in self._own.changed(now_ms, self._feeds.topic_ids):
            feed = self._feeds.of(topic)
            if topic in (names.control_log(self.node), names.lanes(self.node)):
                continue  # nobody uses what is in it
            if feed is None:  # what neighbours read of this node, or what it keeps of them
                yield OwnControlReset()
            elif feed.topic_id != self._own.id_of(topic):
                feed.is_doubted = True
            elif feed.reset is not None and self._own.is_another(topic):
                # It is read because it is a new topic, but this leader wrote the former one.
                yield from self._feeds.begin_again(feed)
        self._look_elsewhere()
        if now_ms - self._doubted_ms >= LOOK_MS:
            # The topic of operators may be another one that has outgrown the position: only its id
            # shows that.
            self._doubted_ms, self._wanted.is_doubted = now_ms, self._wanted.assigned
        if self.orders.is_read_again and self._wanted.assigned and self._wanted.told:
            self.orders.settle()
        yield from self._reopen()
        yield from self._feeds.find(now_ms)
        yield from self._feeds.catch_up(now_ms)
        if self.knows_orders:
            yield from self._close()

    def _look_elsewhere(self) -> None:
        """Read the extra partitions that `clients` may have; records there are reported. K13."""
        clients = TopicNames(self.topology.prefix).clients(self.node)
        home, last = self._feeds[clients].kafka, (self._own.partitions_of(clients) or 1) - 1
        while len(self._elsewhere) > last:
            self._feeds.remove(self._elsewhere.pop())
        for partition in range(len(self._elsewhere) + 1, last + 1):
            self._elsewhere.append(
                self._add(clients, home, self._clients_elsewhere, None, partition=partition)
            )

    def _forget_elsewhere(self) -> None:
        for feed in self._elsewhere:
            self._feeds.begin_again(feed)

    def _may_read(self, feed: ControlFeed) -> bool:
        """Return whether a feed is known to be readable: its link may be disabled."""
        is_known = self.knows_orders and feed.neighbour not in self.orders.disabled
        return is_known or not feed.neighbour

    def lost(self, places: Collection[TopicPartition]) -> None:
        """Read from the beginning what has lost its end, or was recreated. Spec: K16, K21, K23."""
        self._news += self._feeds.lost(places)

    def doubt(self, topic: str) -> None:
        """Check whether a topic is still the one being read."""
        self._feeds.doubt(topic)

    def read_again(self, neighbour: str) -> None:
        """Read a neighbour's control topic from its beginning."""
        topic = TopicNames(self.topology.prefix).control(neighbour)
        if (feed := self._feeds.of(topic)) is not None:
            self._feeds.begin_again(feed)  # the machine itself requested it

    def start_without(self, neighbour: str) -> None:
        """Report that the node no longer waits for proof of what a neighbour offers. Spec: K21."""
        self._news.append(NeighbourUnproven(neighbour))

    def has_read_all(self, topic: str, since_ms: int, now_ms: int) -> bool:
        """Return whether all is read that a topic held at a moment; call again until it is.

        Args:
            topic: Name of a control topic, of `clients`, or of `mesh.config`.
            since_ms: The moment.
            now_ms: The present moment.
        """
        return self._feeds.has_read_all(topic, since_ms, now_ms)

    def _forget_asked(self, neighbour: str) -> None:
        for key in [key for key in self.asked if key[0] == neighbour]:
            del self.asked[key]

    def isolate(self, neighbours: Sequence[str]) -> None:
        """Read nothing from exactly these neighbours; the others go on where they left off."""
        self._feeds.isolated = tuple(neighbours)
        self._feeds.leave(neighbours)

    def leads(self, topic_ids: Mapping[str, bytes], records: LeaderRecords) -> None:
        """Record which control topics this worker took with the lead, and what it writes there."""
        self._own.wrote(topic_ids)
        self.records = records

    def tell_again(self) -> None:
        """Report again which links are disabled: what was learned of them may be newer now."""
        self._tells_again = True

    def _close(self) -> Iterator[Input]:
        """Stop reading over links that operators have disabled. Spec: DMR-10."""
        disabled = self.orders.disabled.intersection(self.topology.neighbours(self.node))
        news = disabled if self._tells_again else disabled - self._closed
        self._closed, self._tells_again = disabled, False
        for name in sorted(news):
            self._feeds.leave([name])
            self._forget_asked(name)
            yield LinkDisabled(name)

    def _reopen(self) -> Iterator[Input]:
        """Read links that are enabled again from the beginning: tombstones do not last."""
        opened = self._closed - self.orders.disabled
        self._closed -= opened
        for name in sorted(opened):
            self._feeds.reopen(name)
            yield LinkEnabled(name)

    # -- decoders -------------------------------------------------------------------------

    def _clients(self, record: Record) -> Iterator[Input]:
        try:
            asked = _subscription_of(record)
        except ProtocolError:
            yield SubscriptionRefused(record.offset())
            raise
        yield SubscriptionRead(record.offset(), *asked)

    def _clients_elsewhere(self, record: Record) -> Iterator[Input]:
        endpoint, filter_, asked = _subscription_of(record)
        is_asked = asked is not None
        yield SubscriptionElsewhere(record.partition(), endpoint, filter_, is_asked)

    def _progress(self, record: Record) -> Iterator[Input]:
        value = record.value()
        if value is None:
            return
        fact = decode_fact(value)
        self.peers.apply(record.partition(), fact)
        if isinstance(fact, InterestInForce):
            yield LaneApplied(record.partition(), versions(fact), None)
        else:
            yield from inputs_of([fact], self._neighbours)

    def _own_control(self, record: Record) -> Iterator[Input]:
        """Read the node's own topic as neighbours do, whoever wrote there. Spec: K16."""
        key, value = record.key() or b"", record.value()
        self.records.read(key, value)
        match parse_key(key, NODE_KEYS):
            case AdvertKey(scope, filter_):
                interest = (
                    None if value is None else _read_or(UNREADABLE_INTEREST, decode_advert, value)
                )
                yield OwnAdvertRead(scope, filter_, interest)
            case MarkKey(scope):
                mark = None if value is None else _read_or(None, decode_mark, value)
                is_ours = mark is None or self._accept_mark(record.topic(), mark)
                yield OwnMarkRead(scope, mark if is_ours else None)
            case IdentityKey() | LinksKey() as about:
                yield from about_links(about, value)
            case HeartbeatKey() if value is not None:
                beat = decode_heartbeat(value)
                yield OwnBeatRead(beat.epoch, beat.beat)
            case HeartbeatKey() | SubscribedKey() | StopKey():
                pass  # only others go by these

    def _accept_mark(self, topic: str, mark: Mark) -> bool:
        """Return whether a mark is about the topic that holds it, as far as that is known.

        It may be old, and copied from another topic; or the topic was recreated, which is then
        checked. A topic without any other marks is a copy as a whole: its identity tells which
        node it is about. Spec: K23, EMS-16.
        """
        feed = self._feeds[topic]
        if NO_TOPIC in (feed.topic_id, mark.topic_id) or feed.topic_id == mark.topic_id:
            feed.has_marks = True
            return True
        if not feed.has_marks:
            return True
        self.doubt(topic)
        return False

    def _control_of(self, neighbour: str) -> Callable[[Record], Iterator[Input]]:
        def decode(record: Record) -> Iterator[Input]:
            value = record.value()
            match parse_key(record.key() or b"", NODE_KEYS):
                case AdvertKey(scope, filter_):
                    interest = None if value is None else decode_advert(value)
                    yield AdvertRead(neighbour, scope, filter_, interest)
                case MarkKey(scope) if value is not None:
                    mark = decode_mark(value)
                    if self._accept_mark(record.topic(), mark):
                        yield MarkRead(neighbour, scope, mark)
                case HeartbeatKey() if value is not None:
                    yield BeatRead(neighbour, decode_heartbeat(value))
                case IdentityKey() | LinksKey() as key:
                    read_in = self._feeds.cluster_ids.get(self.topology.nodes[neighbour].kafka, "")
                    yield from about_links(key, value, neighbour, read_in)
                case MarkKey() | HeartbeatKey():
                    pass  # once a mark is gone, adverts still count
                case SubscribedKey() | StopKey():
                    pass  # for those who watch the mesh

        return decode

    def _stream_of(self, neighbour: str) -> Callable[[Record], Iterator[Input]]:
        def decode(record: Record) -> Iterator[Input]:
            value, key = record.value(), record.key() or b""
            if value is None:
                self.asked.pop((neighbour, key), None)
                return
            match parse_key(key, NEIGHBOUR_KEYS):
                case AckKey(scope):
                    yield AckRead(neighbour, scope, decode_acknowledgement(value))
                case LinkKey():
                    former = self.link_states.get(neighbour)
                    self.link_states[neighbour] = decode_link_state(value).after(former)
                case RepairKey():
                    request = decode_repair_request(value)
                    self.asked[neighbour, key] = RequestedRepair(
                        neighbour, request, record.offset()
                    )

        return decode


def _subscription_of(record: Record) -> tuple[str, str, Subscription | None]:
    """Return endpoint, filter and subscription of a record of `clients`; None if that ended.

    Raises:
        ProtocolError: The record is unusable.
    """
    value = record.value()
    endpoint, filter_ = parse_subscription_key(record.key() or b"")
    subscription = None if value is None else decode_subscription(value)
    fault = name_fault(endpoint) or filter_fault(filter_)
    if fault is not None:
        raise DecodeError(f"subscription {endpoint!r}: {fault}")
    return endpoint, filter_, subscription


def _read_or(instead: N, decode: Callable[[bytes], T], value: bytes) -> T | N:
    try:
        return decode(value)
    except ProtocolError:
        return instead
