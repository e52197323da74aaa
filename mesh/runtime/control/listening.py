"""Control records of the node and its neighbours, as inputs of the node machine.

Spec: K13, K22-K24, K32.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import structlog

from mesh.codec.control import (
    decode_acknowledgement,
    decode_advert,
    decode_heartbeat,
    decode_link_state,
    decode_mark,
    decode_repair_request,
)
from mesh.codec.keys import (
    AckKey,
    AdvertKey,
    HeartbeatKey,
    LinkKey,
    MarkKey,
    RepairKey,
    parse_control_key,
    parse_subscription_key,
)
from mesh.codec.state import decode_progress
from mesh.codec.subscriptions import decode_subscription
from mesh.errors import DecodeError, ProtocolError, TransportError
from mesh.model.control import LinkState, OutboxPosition, Wish
from mesh.model.effects import Relinked
from mesh.model.frames import MessageClass
from mesh.model.inputs import (
    AckRead,
    AdvertRead,
    BeatRead,
    ClientsCaughtUp,
    Input,
    LaneApplied,
    LinkDisabled,
    LinkEnabled,
    MarkRead,
    NeighbourCaughtUp,
    NeighbourUnreachable,
    OwnAdvertRead,
    OwnControlCaughtUp,
    OwnMarkRead,
    SubscriptionRead,
    SubscriptionRefused,
)
from mesh.model.names import name_fault
from mesh.model.state import ProgressKind
from mesh.model.subject import filter_fault
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.runtime.control.identities import about_links
from mesh.runtime.control.mates import MatesPositions
from mesh.runtime.control.wishes import Wishes
from mesh.runtime.host.intake import Intake
from mesh.runtime.host.questions import Questions
from mesh.runtime.lane.positions import versions
from mesh.runtime.lane.troubles import Asked, told
from mesh.transport.port import BEGINNING, Admin, Reader, Record, TopicPartition

UNREACHABLE_AFTER_MS = 15_000
"""How long a start waits for a neighbour's Kafka cluster before it is taken as frozen. K23."""

RETRY_MS = 1_000
"""How often a topic that does not exist yet is looked for."""

SOON_RETRY_MS, SOON_MS = 100, 3_000
"""How often, and for how long, those of a link that a change has brought are: both ends make their
topics at the same moment, and sources hold until each has read the other's. Spec: K28."""

T = TypeVar("T")
N = TypeVar("N")

UNREADABLE = Wish(durable=False, live=False)
"""Stands for a value that nobody can read: a wish for nothing, which is never offered."""

log = structlog.get_logger()


@dataclass(slots=True)
class _Feed:
    """One control topic that is followed from its beginning."""

    place: TopicPartition
    kafka: str
    decode: Callable[[Record], Iterator[Input]]
    caught_up: Input | None
    neighbour: str
    since_ms: int
    next: int = BEGINNING
    end: int | None = None
    assigned: bool = False
    told: bool = False
    given_up: bool = False
    tried_ms: int = -RETRY_MS


@dataclass(slots=True)
class Listener:
    """Follows every control topic that a worker needs, on the worker's readers.

    Attributes:
        topology, node: Whom it listens for.
        admins, readers: Per Kafka cluster.
        intake: Tells how far the records taken go.
        link_states: What each neighbour last said of this node's outboxes. Spec: K24.
        asked: Open repair requests, by neighbour and record key. Spec: K11.
        wishes: What operators want of the node.
        mates: How far all lanes of the node have read, if there are several.
    """

    topology: Topology
    node: str
    admins: Mapping[str, Admin]
    readers: Mapping[str, Reader]
    intake: Intake
    questions: Questions
    started_ms: int
    link_states: dict[str, LinkState] = field(default_factory=dict)
    asked: dict[tuple[str, bytes], Asked] = field(default_factory=dict)
    wishes: Wishes = field(init=False)
    refused: int = 0
    mates: MatesPositions = field(default_factory=MatesPositions)
    _neighbours: dict[str, str] = field(default_factory=dict)
    _cut: tuple[str, ...] = ()
    _closed: frozenset[str] = frozenset()
    _tells_again: bool = False
    _feeds: dict[str, _Feed] = field(default_factory=dict)
    _cluster_ids: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """List the topics; they are looked for as time passes."""
        self.wishes = Wishes(self.node)
        names = TopicNames(self.topology.prefix)
        nodes = self.topology.nodes
        own = nodes[self.node].kafka
        self._add(names.clients(self.node), own, self._clients, ClientsCaughtUp())
        self._add(names.config(), own, self.wishes.take, None)
        self._add(names.control(self.node), own, self._own_control, OwnControlCaughtUp())
        if (lanes := nodes[self.node].lanes) > 1:
            # With one lane its owner knows by itself; with more, lane 0 waits for the others.
            for lane in range(lanes):
                self._add(names.progress(self.node), own, self._progress, None, lane)
        for other in self.topology.neighbours(self.node):
            self._listen_to(other, self.started_ms)

    def _listen_to(self, other: str, now_ms: int) -> None:
        names, kafka = TopicNames(self.topology.prefix), self.topology.nodes[other].kafka
        self._neighbours[names.outbox(other, self.node, MessageClass.GUARANTEED)] = other
        control, caught_up = self._control_of(other), NeighbourCaughtUp(other)
        self._add(names.control(other), kafka, control, caught_up, 0, other, now_ms)
        stream = names.to_control(other, self.node)
        self._add(stream, kafka, self._stream_of(other), None, 0, other, now_ms)

    def relink(self, relinked: Relinked, now_ms: int) -> None:
        """Hear no more of removed neighbours, and all from the beginning of new ones. Spec: K28."""
        self.topology = relinked.topology
        for key, feed in [one for one in self._feeds.items() if one[1].neighbour in relinked.gone]:
            del self._feeds[key]
            self.intake.unwatch(feed.place)
            if feed.assigned:
                self.readers[feed.kafka].unassign([feed.place])
            self.intake.forget([feed.place])
        self._closed -= frozenset(relinked.gone)  # a link that comes back closed is told anew
        for name in relinked.gone:
            self.link_states.pop(name, None)
        for topic in [one for one, name in self._neighbours.items() if name in relinked.gone]:
            del self._neighbours[topic]
        for asked in [one for one in self.asked if one[0] in relinked.gone]:
            del self.asked[asked]
        for name in relinked.added:
            self._listen_to(name, now_ms)

    def _add(
        self,
        topic: str,
        kafka: str,
        decode: Callable[[Record], Iterator[Input]],
        caught_up: Input | None,
        partition: int = 0,
        neighbour: str = "",
        since_ms: int = 0,
    ) -> None:
        place = TopicPartition(topic, partition)
        feed = _Feed(place, kafka, decode, caught_up, neighbour, since_ms)
        self._feeds[f"{topic}-{partition}"] = feed

    @property
    def knows_wishes(self) -> bool:
        """Whether all that operators wanted before the start is known."""
        return self._feeds[f"{TopicNames(self.topology.prefix).config()}-0"].told

    def read_by_mates(self, neighbour: str) -> Mapping[TopicPartition, OutboxPosition]:
        """Return how far all lanes of the node have read a neighbour's outboxes."""
        names = TopicNames(self.topology.prefix)
        classes = tuple(MessageClass)
        return self.mates.read(frozenset(names.outbox(neighbour, self.node, c) for c in classes))

    def has(self, topic: str, partition: int) -> bool:
        """Say whether records of this partition are for the listener."""
        return f"{topic}-{partition}" in self._feeds

    def take(self, record: Record) -> Iterator[Input]:
        """Yield what a record means. One that breaks the rules is counted and left out."""
        feed = self._feeds.get(f"{record.topic()}-{record.partition()}")
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
        """Assign topics that have appeared; yield which ones are read to their end. K23."""
        yield from self._reopen()
        yield from self._find(now_ms)
        for feed in list(self._feeds.values()):
            if not self._may_read(feed):
                continue
            if feed.neighbour in self._cut:
                yield from self._give_up(feed, now_ms)
                continue
            is_due = feed.assigned and not feed.told and feed.end is not None
            if is_due and self.intake.positions.get(feed.place, BEGINNING) >= (feed.end or 0):
                feed.told = True
                self.intake.unwatch(feed.place)
                if feed.caught_up is not None:
                    yield feed.caught_up
        if self.knows_wishes:
            yield from self._close()

    def _retry_ms(self, feed: _Feed, now_ms: int) -> int:
        is_brought = feed.since_ms > self.started_ms
        return SOON_RETRY_MS if is_brought and now_ms - feed.since_ms < SOON_MS else RETRY_MS

    def _may_read(self, feed: _Feed) -> bool:
        """Say whether it is known that a feed may be read: a link may be disabled."""
        is_known = self.knows_wishes and feed.neighbour not in self.wishes.disabled
        return is_known or not feed.neighbour

    def _find(self, now_ms: int) -> Iterator[Input]:
        """Look for topics that are not read yet; each Kafka cluster is asked for all at once."""
        wanted: dict[str, list[_Feed]] = {}
        for feed in self._feeds.values():
            is_out = feed.assigned or feed.neighbour in self._cut or not self._may_read(feed)
            if not is_out and now_ms - feed.tried_ms >= self._retry_ms(feed, now_ms):
                wanted.setdefault(feed.kafka, []).append(feed)
        for kafka, feeds in wanted.items():
            places = [feed.place for feed in feeds]
            try:
                found = self.questions.answer(
                    ("control", kafka), partial(self._look, kafka, places)
                )
            except TransportError:
                for feed in feeds:
                    feed.tried_ms = now_ms
                    yield from self._give_up(feed, now_ms)
                continue
            if found is None:
                continue
            ends, self._cluster_ids[kafka] = found
            for feed in feeds:
                if feed.place in ends:
                    feed.tried_ms = now_ms
                    yield from self._found(feed, ends[feed.place])

    def _look(
        self, kafka: str, places: Sequence[TopicPartition]
    ) -> tuple[Mapping[TopicPartition, int | None], str]:
        """Return where these end, None for what does not exist, and the Kafka cluster's id."""
        admin = self.admins[kafka]
        ends = admin.ends(places)
        return {at: ends.get(at) for at in places}, self._cluster_ids.get(
            kafka
        ) or admin.cluster_id()

    def _found(self, feed: _Feed, end: int | None) -> Iterator[Input]:
        if end is None:
            # Reachable but absent is proven empty; what it offers later arrives as additions.
            if not feed.told:
                feed.told = True
                if feed.caught_up is not None:
                    yield feed.caught_up
            return
        feed.end = end
        if not end and feed.caught_up is None:
            feed.told = True  # nobody has ever wanted anything
        feed.assigned = True
        if not feed.told:
            self.intake.watch(feed.kafka, feed.place)
        self.readers[feed.kafka].assign({feed.place: feed.next})

    def cut(self, neighbours: Sequence[str]) -> None:
        """Read nothing of exactly these neighbours; the others go on where they stood."""
        self._cut = tuple(neighbours)
        self._leave(self._cut)

    def _leave(self, neighbours: Collection[str]) -> None:
        for feed in self._feeds.values():
            if feed.assigned and feed.neighbour in neighbours:
                feed.assigned = False
                self.intake.unwatch(feed.place)
                self.readers[feed.kafka].unassign([feed.place])
                self.intake.forget([feed.place])

    def tell_again(self) -> None:
        """Tell anew which links are disabled: what was learned of them may be newer now."""
        self._tells_again = True

    def _close(self) -> Iterator[Input]:
        """Read nothing over links that operators have disabled. Spec: DMR-10."""
        disabled = self.wishes.disabled.intersection(self.topology.neighbours(self.node))
        news = disabled if self._tells_again else disabled - self._closed
        self._closed, self._tells_again = disabled, False
        for name in sorted(news):
            self._leave([name])
            for key in [key for key in self.asked if key[0] == name]:
                del self.asked[key]
            yield LinkDisabled(name)

    def _reopen(self) -> Iterator[Input]:
        """Read from the beginning over links that are enabled again: tombstones do not last."""
        opened = self._closed - self.wishes.disabled
        self._closed -= opened
        for name in sorted(opened):
            for feed in self._feeds.values():
                if feed.neighbour == name:
                    feed.next, feed.told, feed.given_up = BEGINNING, False, False
            yield LinkEnabled(name)

    def _give_up(self, feed: _Feed, now_ms: int) -> Iterator[Input]:
        """Take a neighbour as frozen that could not be reached for too long. Spec: K21, K23."""
        overdue = now_ms - feed.since_ms >= UNREACHABLE_AFTER_MS
        waits = not (feed.told or feed.given_up)
        if overdue and waits and isinstance(feed.caught_up, NeighbourCaughtUp):
            feed.given_up = True
            yield NeighbourUnreachable(feed.neighbour)

    # -- decoders -------------------------------------------------------------------------

    def _clients(self, record: Record) -> Iterator[Input]:
        value = record.value()
        try:
            endpoint, filter_ = parse_subscription_key(record.key() or b"")
            subscription = None if value is None else decode_subscription(value)
            fault = name_fault(endpoint) or filter_fault(filter_)
            if fault is not None:
                raise DecodeError(f"subscription {endpoint!r}: {fault}")
        except ProtocolError:
            yield SubscriptionRefused(record.offset())
            raise
        yield SubscriptionRead(record.offset(), endpoint, filter_, subscription)

    def _progress(self, record: Record) -> Iterator[Input]:
        value = record.value()
        if value is None:
            return
        progress = decode_progress(value)
        self.mates.take(progress)
        if progress.kind is ProgressKind.INTEREST:
            yield LaneApplied(record.partition(), versions(progress))
        elif (trouble := told(progress, self._neighbours)) is not None:
            yield trouble

    def _own_control(self, record: Record) -> Iterator[Input]:
        """Read the own topic as neighbours do, whoever wrote there. Spec: K16."""
        value = record.value()
        match parse_control_key(record.key() or b""):
            case AdvertKey(scope, filter_):
                wish = None if value is None else _read_or(UNREADABLE, decode_advert, value)
                yield OwnAdvertRead(scope, filter_, wish)
            case MarkKey(scope):
                mark = None if value is None else _read_or(None, decode_mark, value)
                yield OwnMarkRead(scope, mark)
            case key:
                yield from about_links(key, value)

    def _control_of(self, neighbour: str) -> Callable[[Record], Iterator[Input]]:
        def decode(record: Record) -> Iterator[Input]:
            value = record.value()
            match parse_control_key(record.key() or b""):
                case AdvertKey(scope, filter_):
                    wish = None if value is None else decode_advert(value)
                    yield AdvertRead(neighbour, scope, filter_, wish)
                case MarkKey(scope) if value is not None:
                    yield MarkRead(neighbour, scope, decode_mark(value))
                case HeartbeatKey() if value is not None:
                    yield BeatRead(neighbour, decode_heartbeat(value))
                case key:
                    read_in = self._cluster_ids.get(self.topology.nodes[neighbour].kafka, "")
                    yield from about_links(key, value, neighbour, read_in)

        return decode

    def _stream_of(self, neighbour: str) -> Callable[[Record], Iterator[Input]]:
        def decode(record: Record) -> Iterator[Input]:
            value, key = record.value(), record.key() or b""
            if value is None:
                self.asked.pop((neighbour, key), None)
                return
            match parse_control_key(key):
                case AckKey(scope):
                    yield AckRead(neighbour, scope, decode_acknowledgement(value))
                case LinkKey():
                    self.link_states[neighbour] = decode_link_state(value)
                case RepairKey():
                    request = decode_repair_request(value)
                    self.asked[neighbour, key] = Asked(neighbour, request, record.offset())
                case _:
                    pass

        return decode


def _read_or(instead: N, decode: Callable[[bytes], T], value: bytes) -> T | N:
    try:
        return decode(value)
    except ProtocolError:
        return instead
