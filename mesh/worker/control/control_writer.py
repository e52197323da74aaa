"""What the owner of lane 0 writes: identity, interest, acknowledgements, heartbeat.

Everything that one step of the node machine requests is written in one transaction.
Spec: K4, K16, K23, K24.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

import structlog

from mesh.errors import LocalProtocolError, ProtocolError
from mesh.model.control import (
    NO_TOPIC,
    UNREADABLE_INTEREST,
    Identity,
    Interest,
    LinkState,
    Mark,
    OutboxPosition,
    RepairRequest,
    Scope,
    TopicIdentity,
)
from mesh.model.effects import (
    DropLinks,
    EndLearned,
    EndSubscription,
    Write,
    WriteAck,
    WriteAdvert,
    WriteHeartbeat,
    WriteLearned,
    WriteLinks,
    WriteLinkState,
    WriteMark,
    WriteRepair,
    WriteStop,
    WriteSubscribed,
)
from mesh.model.frames import MessageClass
from mesh.model.interest_inputs import VersionByScope
from mesh.model.links import NodeLinks
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.headers import headers_of
from mesh.transport.partly import answers_so_far
from mesh.transport.port import Headers, KafkaCluster, Record, Writer
from mesh.wire.control import (
    Learned,
    decode_advert,
    decode_heartbeat,
    decode_identity,
    decode_learned,
    decode_mark,
    encode_acknowledgement,
    encode_advert,
    encode_heartbeat,
    encode_identity,
    encode_learned,
    encode_link_state,
    encode_mark,
    encode_repair_request,
    encode_stop,
)
from mesh.wire.keys import (
    LEARNED_KEYS,
    NODE_KEYS,
    AdvertKey,
    HeartbeatKey,
    IdentityKey,
    LearnedKey,
    LinksKey,
    MarkKey,
    StopKey,
    SubscribedKey,
    ack_key,
    advert_key,
    heartbeat_key,
    identity_key,
    learned_key,
    link_key,
    links_key,
    mark_key,
    parse_key,
    repair_key,
    stop_key,
    subscribed_key,
    subscription_key,
)
from mesh.wire.links import decode_node_links, encode_node_links
from mesh.wire.renewals import ENDED
from mesh.worker.control.leader_records import LeaderRecord, LeaderRecords
from mesh.worker.control.lost_writes import LostWrites

LEARNED_BYTES = 50_000
"""Approximate size of one record of `learned`; a set of many filters takes several. Every mesh
allows records of 100 kB, whatever limit it sets for messages: a refused record would end the
leadership again and again. Spec: K6."""

BY_SPARE = "by-spare"
"""Header of an identity: its writer has the node's spare transactional id. Spec: K16."""

ReadPositions = Callable[[str], Sequence[OutboxPosition]]
"""Maps a neighbour to the committed positions on its outboxes."""

log = structlog.get_logger()


@dataclass(slots=True)
class Written:
    """What a control topic says.

    Attributes:
        identity: Who wrote it last, or None if nobody did.
        offers: Entries offered per scope.
        stops: Topic partitions that are reported as stopped.
        epoch: The highest epoch in the topic.
        links: What it says of nodes' links, by uuid.
        said: The records that say so, by key.
    """

    identity: Identity | None = None
    offers: dict[Scope, dict[str, Interest]] = field(default_factory=dict)
    stops: dict[tuple[str, int], None] = field(default_factory=dict)
    epoch: int = 0
    links: dict[str, NodeLinks] = field(default_factory=dict)
    said: dict[bytes, bytes] = field(default_factory=dict)


def read_written(records: Iterable[Record]) -> Written:
    """Return what the records of a node's own control topic say. Spec: K16."""
    written = Written()
    for record in records:
        key, value = None, record.value()
        try:
            match key := parse_key(record.key() or b"", NODE_KEYS):
                case IdentityKey() if value is not None:
                    written.identity = decode_identity(value)
                    written.epoch = max(written.epoch, written.identity.epoch)
                case HeartbeatKey() if value is not None:
                    written.epoch = max(written.epoch, decode_heartbeat(value).epoch)
                case MarkKey(scope) if value is not None:
                    # Readers believe the newest epoch, whoever wrote it.
                    written.offers.setdefault(scope, {})
                    written.epoch = max(written.epoch, decode_mark(value).epoch)
                case AdvertKey(scope, filter_) if value is not None:
                    entries = written.offers.setdefault(scope, {})
                    entries[filter_] = UNREADABLE_INTEREST  # never offered: it is overwritten
                    entries[filter_] = decode_advert(value)
                case MarkKey(scope):
                    # Ending a scope withdraws its entries first: what is left is a stranger's.
                    if not written.offers.get(scope):
                        written.offers.pop(scope, None)
                case AdvertKey(scope, filter_):
                    written.offers.get(scope, {}).pop(filter_, None)
                case StopKey(topic, partition) if value is not None:
                    written.stops[topic, partition] = None
                case StopKey(topic, partition):
                    written.stops.pop((topic, partition), None)
                case LinksKey(uuid) if value is not None:
                    written.links[uuid] = decode_node_links(value)
                    written.said[links_key(uuid)] = value
                case LinksKey(uuid):
                    _forget_links(written, uuid)
                case IdentityKey() | HeartbeatKey() | SubscribedKey():
                    pass
        except ProtocolError:
            # A record of another version is written again if it still matters. So is one that a
            # stranger has overwritten: compaction leaves nothing else of it.
            if isinstance(key, LinksKey):
                _forget_links(written, key.uuid)
    return written


def _forget_links(written: Written, uuid: str) -> None:
    written.links.pop(uuid, None)
    written.said.pop(links_key(uuid), None)


def was_written_by_spare(records: Sequence[Record]) -> bool:
    """Return whether the newest identity on a control topic was written with the spare id."""
    key = identity_key()
    newest = next((one for one in reversed(records) if one.key() == key), None)
    return newest is not None and any(name == BY_SPARE for name, _ in headers_of(newest))


@dataclass(slots=True)
class ControlWriter:
    """Writes the control topics of one node.

    Attributes:
        writer: Transactional; taking it fences a former owner of lane 0.
        read_positions: Where this node stands on each neighbour's outboxes.
        topic_ids: Of the node's control topics, by name: marks hold for that very topic only.
        unwritable: Topics that are not written to now; see `mesh.worker.control.unwritable`.
        written_to: Dispensable topics that the last transaction wrote to.
        ends: Where its own records are, in topics that only it writes and others go by.
        records: What it wrote last besides its offers; notified as it writes.
        by_spare: Whether it has the node's spare transactional id.
        learned: Numbers of the parts that `learned` has, by neighbour and scope.
    """

    topology: Topology
    node: str
    writer: Writer
    read_positions: ReadPositions
    topic_ids: Mapping[str, bytes]
    unwritable: frozenset[str] = frozenset()
    written_to: dict[str, None] = field(default_factory=dict)
    ends: LostWrites = field(default_factory=LostWrites)
    records: LeaderRecords = field(default_factory=LeaderRecords)
    by_spare: bool = False
    learned: dict[tuple[str, Scope], dict[int, None]] = field(default_factory=dict)
    names: TopicNames = field(init=False)
    _parts: dict[tuple[str, Scope], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Build the names once."""
        self.names = TopicNames(self.topology.prefix)

    def introduce(self, identity: Identity) -> None:
        """Write who this is, and whether it writes under the spare id. Spec: K4, K16."""
        self.writer.begin()
        self._introduce(identity)
        self.writer.commit()

    def _introduce(self, identity: Identity) -> None:
        headers = [(BY_SPARE, b"")] if self.by_spare else None
        self._say(identity_key(), encode_identity(identity), headers)

    def write(
        self,
        told: Identity | None,
        writes: Iterable[Write],
        again: Iterable[tuple[bytes, LeaderRecord]] = (),
    ) -> None:
        """Hand over everything from one step in one transaction, which is not committed yet.

        Args:
            told: Who the node is, if that has to be written again.
            writes: The rest.
            again: What others have overwritten.

        Raises:
            TransportFencedError: Another worker owns lane 0.
        """
        self.written_to.clear()
        self.writer.begin()
        for key, word in again:
            self._control(key, *word)
        if told is not None:
            self._introduce(told)
        for write in writes:
            try:
                self._write(write)
            except LocalProtocolError as error:
                # A number that somebody else wrote has no successor: that record stays as it was.
                log.error("control.not_written", fault=str(error)[:500])  # noqa: TRY400

    def _write(self, write: Write) -> None:
        match write:
            case WriteAdvert(scope, filter_, interest):
                value = None if interest is None else encode_advert(interest)
                self._control(advert_key(scope, filter_), value)
            case WriteMark(scope, mark):
                self._mark(scope, mark)
            case WriteSubscribed(ack):
                self._say(subscribed_key(), encode_acknowledgement(ack))
            case WriteHeartbeat(heartbeat):
                self._control(heartbeat_key(), encode_heartbeat(heartbeat))
            case WriteAck(neighbour, scope, ack):
                self._to(neighbour, ack_key(scope), encode_acknowledgement(ack))
            case WriteLinkState(neighbour, epoch, beat):
                state = LinkState(epoch, beat, tuple(self.read_positions(neighbour)))
                self._to(neighbour, link_key(), encode_link_state(state))
            case WriteLearned():
                self._learned(write)
            case EndLearned(neighbour):
                for kept in [one for one in self.learned if one[0] == neighbour]:
                    self._end_parts(*kept, list(self.learned[kept]))
            case WriteStop(topic, partition, stop):
                content = None if stop is None else encode_stop(stop)
                self._say(stop_key(topic, partition), content)
            case WriteLinks(links):
                self._say(links_key(links.uuid), encode_node_links(links))
            case DropLinks(uuid):
                self._say(links_key(uuid), None)
            case WriteRepair(neighbour, request, is_open):
                self._ask(neighbour, request, is_open=is_open)
            case EndSubscription(endpoint, filter_):
                if self._note_written_to(clients := self.names.clients(self.node)):
                    key = subscription_key(endpoint, filter_)
                    self.writer.produce(clients, None, key, 0, headers=ENDED)

    def _ask(self, neighbour: str, request: RepairRequest, *, is_open: bool) -> None:
        """Write a repair request, or its end. Spec: K11."""
        key = repair_key(
            request.topic_id, request.partition, request.outbox_partition, MessageClass.GUARANTEED
        )
        self._to(neighbour, key, encode_repair_request(request) if is_open else None)

    def _learned(self, learned: WriteLearned) -> None:
        """Write a proven set in parts that fit into records, and what came since. Spec: K21.

        A version that brought nothing is recorded with the next one that does. Parts of a former
        set are removed with it: those of another node of that name may have later versions.
        """
        topic, scope = self.names.learned(self.node), (learned.neighbour, learned.scope)
        first = self._parts[scope] if learned.is_more else 0
        number, known = first, self.learned.setdefault(scope, {})
        for number, part in enumerate(_parts(learned.filters), first):
            value = encode_learned(learned.epoch, learned.number, part)
            self._put(topic, learned_key(*scope, number), value)
            known[number] = None
        self._parts[scope] = number + bool(learned.filters or not learned.is_more)
        if not learned.is_more:
            self._end_parts(*scope, [one for one in known if one > number])

    def _end_parts(self, neighbour: str, scope: Scope, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._put(self.names.learned(self.node), learned_key(neighbour, scope, number), None)
            del self.learned[neighbour, scope][number]

    def _mark(self, scope: Scope, mark: Mark | None) -> None:
        if mark is not None:
            topic_id = self.topic_ids.get(self.names.control(self.node), NO_TOPIC)
            mark = replace(mark, topic_id=topic_id)
        self._control(mark_key(scope), None if mark is None else encode_mark(mark))

    def _say(self, key: bytes, value: bytes | None, headers: Headers | None = None) -> None:
        """Write a record that is written once, and would be missed: see `LeaderRecords`."""
        self.records.say(key, LeaderRecord(value, headers))
        self._control(key, value, headers)

    def _control(self, key: bytes, value: bytes | None, headers: Headers | None = None) -> None:
        self._put(self.names.control(self.node), key, value, headers)
        if self._note_written_to(log := self.names.control_log(self.node)):
            self.writer.produce(log, value, key, 0)

    def _to(self, neighbour: str, key: bytes, value: bytes | None) -> None:
        if self._note_written_to(topic := self.names.to_control(self.node, neighbour)):
            self._put(topic, key, value)

    def _note_written_to(self, topic: str) -> bool:
        """Return whether a dispensable topic may be written to; if so, note that it is."""
        if topic in self.unwritable:
            return False
        self.written_to[topic] = None
        return True

    def _put(
        self, topic: str, key: bytes, value: bytes | None, headers: Headers | None = None
    ) -> None:
        watching = self.ends.watching(topic)
        self.writer.produce(topic, value, key, 0, headers=headers, on_delivery=watching)


def _parts(filters: Sequence[str]) -> Iterator[Sequence[str]]:
    """Split a list of filters where its record would grow too large; return at least one part."""
    part: list[str] = []
    size = 0
    for filter_ in filters:
        size += len(filter_.encode())
        if part and size > LEARNED_BYTES:
            yield part
            part, size = [], len(filter_.encode())
        part.append(filter_)
    yield part


def read_learned(records: Iterable[Record], neighbour: str) -> Mapping[Scope, Sequence[str]]:
    """Return what `learned` says of a neighbour: what it wanted, per scope. Spec: K21.

    Parts of one set have one version, and what came since has later ones; others are left over
    from a larger set.
    """
    return {
        scope: list(
            dict.fromkeys(
                filter_
                for _, part in sorted(parts.items())
                if part[:2] >= parts[0][:2]
                for filter_ in part.filters
            )
        )
        for scope, parts in _learned_parts(records, neighbour).items()
    }


def parts_of_learned(records: Iterable[Record]) -> dict[tuple[str, Scope], dict[int, None]]:
    """Return the numbers of the parts that `learned` has, by neighbour and scope."""
    found: dict[bytes, bool] = {one.key() or b"": one.value() is not None for one in records}
    parts: dict[tuple[str, Scope], dict[int, None]] = {}
    for name in [name for name, is_kept in found.items() if is_kept]:
        with suppress(ProtocolError):
            key = parse_key(name, LEARNED_KEYS)
            if isinstance(key, LearnedKey):
                parts.setdefault((key.neighbour, key.scope), {})[key.part] = None
    return parts


def learned_versions(records: Iterable[Record], neighbour: str) -> VersionByScope:
    """Return (epoch, number) at which that was proven, per scope. Spec: K21."""
    return {
        scope: max((part.epoch, part.number) for part in parts.values())
        for scope, parts in _learned_parts(records, neighbour).items()
    }


def _learned_parts(
    records: Iterable[Record], neighbour: str
) -> Mapping[Scope, Mapping[int, Learned]]:
    found: dict[Scope, dict[int, Learned]] = {}
    for record in records:
        value = record.value()
        try:
            key = parse_key(record.key() or b"", LEARNED_KEYS)
            if not isinstance(key, LearnedKey) or key.neighbour != neighbour:
                continue
            if value is None:
                found.get(key.scope, {}).pop(key.part, None)
            else:
                found.setdefault(key.scope, {})[key.part] = decode_learned(value)
        except ProtocolError:
            continue  # of another version: it will be proven again
    return {scope: parts for scope, parts in found.items() if 0 in parts}


def identity_of(
    topology: Topology, node: str, kafka: KafkaCluster, cluster_id: str, uuid: str, epoch: int
) -> Identity:
    """Return the identity record of a node, with the topics that exist now. Spec: K4."""
    names = TopicNames(topology.prefix)
    receivers = [other for other in topology.neighbours(node) if topology.sends(node, other)]
    topics: list[str] = []
    for message_class in MessageClass:
        topics.append(names.ingress(node, message_class))
        topics += [names.outbox(node, other, message_class) for other in receivers]
    described, _ = answers_so_far(partial(kafka.admin().describe, topics))
    return Identity(
        node=node,
        uuid=uuid,
        epoch=epoch,
        cluster_id=cluster_id,
        lanes=topology.nodes[node].lanes,
        topics=tuple(
            TopicIdentity(info.name, info.topic_id, info.partitions) for info in described.values()
        ),
    )
