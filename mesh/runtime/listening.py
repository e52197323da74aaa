"""Control records of the node and its neighbours, as inputs of the node machine.

Spec: K13, K22-K24, K32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import structlog

from mesh.codec.control import (
    decode_acknowledgement,
    decode_advert,
    decode_heartbeat,
    decode_link_state,
    decode_mark,
    decode_pause,
    decode_repair_request,
    decode_stop,
)
from mesh.codec.keys import (
    AcceptKey,
    AckKey,
    AdvertKey,
    HeartbeatKey,
    IdentityKey,
    LinkKey,
    MarkKey,
    PauseKey,
    RepairKey,
    SubjectPauseKey,
    config_key,
    parse_control_key,
    parse_subscription_key,
)
from mesh.codec.state import decode_progress
from mesh.codec.subscriptions import decode_subscription
from mesh.errors import DecodeError, ProtocolError, TransportError
from mesh.model.control import LinkState, Wish
from mesh.model.frames import MessageClass
from mesh.model.inputs import (
    AckRead,
    AdvertRead,
    BeatRead,
    ClientsCaughtUp,
    Input,
    LaneApplied,
    LossAccepted,
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
from mesh.runtime.intake import Intake
from mesh.runtime.mates import MatesPositions
from mesh.runtime.positions import versions
from mesh.runtime.troubles import Asked, told
from mesh.transport.port import BEGINNING, Admin, Reader, Record, TopicPartition

UNREACHABLE_AFTER_MS = 15_000
"""How long a start waits for a neighbour's Kafka cluster before it is taken as frozen. K23."""

RETRY_MS = 1_000
"""How often a topic that does not exist yet is looked for."""

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
        paused: Links that operators want not to be read.
        paused_subjects: Filters of what they want not to be taken of clients.
        mates: How far all lanes of the node have read, if there are several.
    """

    topology: Topology
    node: str
    admins: Mapping[str, Admin]
    readers: Mapping[str, Reader]
    intake: Intake
    started_ms: int
    link_states: dict[str, LinkState] = field(default_factory=dict)
    asked: dict[tuple[str, bytes], Asked] = field(default_factory=dict)
    paused: frozenset[PauseKey] = frozenset()
    paused_subjects: frozenset[str] = frozenset()
    refused: int = 0
    mates: MatesPositions = field(default_factory=MatesPositions)
    _neighbours: dict[str, str] = field(default_factory=dict)
    _cut: tuple[str, ...] = ()
    _feeds: dict[str, _Feed] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """List the topics; they are looked for as time passes."""
        names = TopicNames(self.topology.prefix)
        nodes = self.topology.nodes
        own = nodes[self.node].kafka
        self._neighbours = {
            names.outbox(other, self.node, MessageClass.GUARANTEED): other
            for other in self.topology.neighbours(self.node)
        }
        self._add(names.clients(self.node), own, self._clients, ClientsCaughtUp())
        self._add(names.config(), own, self._config, None)
        self._add(names.control(self.node), own, self._own_control, OwnControlCaughtUp())
        if (lanes := nodes[self.node].lanes) > 1:
            # With one lane its owner knows by itself; with more, lane 0 waits for the others.
            for lane in range(lanes):
                self._add(names.progress(self.node), own, self._progress, None, lane)
        for link in self.topology.links_of(self.node):
            other = link.other(self.node)
            kafka = nodes[other].kafka
            self._add(
                names.control(other),
                kafka,
                self._control_of(other),
                NeighbourCaughtUp(other),
                neighbour=other,
            )
            stream = names.to_control(other, self.node)
            self._add(stream, kafka, self._stream_of(other), None, neighbour=other)

    def _add(
        self,
        topic: str,
        kafka: str,
        decode: Callable[[Record], Iterator[Input]],
        caught_up: Input | None,
        partition: int = 0,
        neighbour: str = "",
    ) -> None:
        feed = _Feed(TopicPartition(topic, partition), kafka, decode, caught_up, neighbour)
        self._feeds[f"{topic}-{partition}"] = feed

    @property
    def knows_wishes(self) -> bool:
        """Whether all that operators wanted before the start is known."""
        return self._feeds[f"{TopicNames(self.topology.prefix).config()}-0"].told

    def has(self, topic: str, partition: int) -> bool:
        """Say whether records of this partition are for the listener."""
        return f"{topic}-{partition}" in self._feeds

    def take(self, record: Record) -> Iterator[Input]:
        """Yield what a record means. One that breaks the rules is counted and left out."""
        feed = self._feeds[f"{record.topic()}-{record.partition()}"]
        feed.next = record.offset() + 1
        try:
            yield from feed.decode(record)
        except ProtocolError as error:
            self.refused += 1
            log.warning(
                "control.refused", topic=record.topic(), offset=record.offset(), fault=str(error)
            )

    def follow(self, now_ms: int) -> Iterator[Input]:
        """Assign topics that have appeared; yield which ones are read to their end. K23."""
        for feed in self._feeds.values():
            if feed.neighbour in self._cut:
                yield from self._give_up(feed, now_ms)
                continue
            if not feed.assigned and now_ms - feed.tried_ms >= RETRY_MS:
                feed.tried_ms = now_ms
                yield from self._find(feed, now_ms)
            is_due = feed.assigned and not feed.told and feed.end is not None
            if is_due and self.intake.positions.get(feed.place, BEGINNING) >= (feed.end or 0):
                feed.told = True
                self.intake.unwatch(feed.place)
                if feed.caught_up is not None:
                    yield feed.caught_up

    def _find(self, feed: _Feed, now_ms: int) -> Iterator[Input]:
        try:
            end = self.admins[feed.kafka].ends([feed.place]).get(feed.place)
        except TransportError:
            yield from self._give_up(feed, now_ms)
            return
        if end is None:
            # Reachable but absent is proven empty; what it offers later arrives as additions.
            if not feed.told:
                feed.told = True
                if feed.caught_up is not None:
                    yield feed.caught_up
            return
        feed.end = end
        feed.assigned = True
        if not feed.told:
            self.intake.watch(feed.kafka, feed.place)
        self.readers[feed.kafka].assign({feed.place: feed.next})

    def cut(self, neighbours: Sequence[str]) -> None:
        """Read nothing of exactly these neighbours; the others go on where they stood."""
        self._cut = tuple(neighbours)
        for feed in self._feeds.values():
            if feed.assigned and feed.neighbour in self._cut:
                feed.assigned = False
                self.readers[feed.kafka].unassign([feed.place])
                self.intake.forget([feed.place])

    def _give_up(self, feed: _Feed, now_ms: int) -> Iterator[Input]:
        """Take a neighbour as frozen that could not be reached for too long. Spec: K21, K23."""
        overdue = now_ms - self.started_ms >= UNREACHABLE_AFTER_MS
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

    def _config(self, record: Record) -> Iterator[Input]:
        """Hear what operators want of this node; the topology is not for it."""
        value, key = record.value(), record.key() or b""
        if key == config_key():
            return
        match parse_control_key(key):
            case AcceptKey(node) if value is not None and node == self.node:
                yield LossAccepted(decode_stop(value))
            case PauseKey(node) as pause if node == self.node:
                if value is None:
                    self.paused -= {pause}
                else:
                    decode_pause(value)  # one of a later version is refused
                    self.paused |= {pause}
            case SubjectPauseKey(node, filter_) if node == self.node:
                if value is None:
                    self.paused_subjects -= {filter_}
                else:
                    if (fault := filter_fault(filter_)) is not None:
                        raise DecodeError(f"paused subjects: {fault}")
                    decode_pause(value)
                    self.paused_subjects |= {filter_}
            case _:
                pass

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
            case _:
                pass

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
                case IdentityKey():
                    pass  # read when a link comes up; nothing here depends on it
                case _:
                    pass

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
