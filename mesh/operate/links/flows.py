"""The traffic of each link in each direction: its state, what waits for it, and what is wanted.

Spec: K22-K24, R14.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mesh.errors import ProtocolError, TransportError
from mesh.model.control import Interest, OutboxPosition, Pause, Scope
from mesh.model.frames import MessageClass
from mesh.model.topology import Topology
from mesh.model.words import LinkWord
from mesh.operate.questions import side_by_side
from mesh.operate.status import link_state
from mesh.transport.port import KafkaCluster, Record, TopicPartition
from mesh.transport.reading import read_range
from mesh.view.mesh_view import MeshView, RunningMesh
from mesh.view.node_view import NodeView
from mesh.wire.frames import decode_header
from mesh.wire.keys import PauseKey

BACKLOG_FRAMES_MAX = 5_000
"""Up to this many waiting frames of one partition are counted; beyond that offsets are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFlow:
    """One direction of a link.

    Attributes:
        source, target: Sender and reader.
        state: As the reader sees it; `full` as the sender does; `paused` if it would be up;
            `unknown` if the reader is not up.
        reason: What the reader says about it.
        backlog_frames: Frames in the outboxes that the reader has not passed; None if unknown.
        backlog_messages: Messages in them; None if unknown or too many to count.
        wanted: Filters that the reader wants from the sender, without addresses of nodes; None if
            the reader's Kafka cluster does not answer.
    """

    source: str
    target: str
    zone: str
    kind: str
    state: str
    reason: str
    backlog_frames: int | None
    backlog_messages: int | None
    wanted: int | None


def link_flows(mesh: RunningMesh) -> Sequence[LinkFlow]:
    """Return the directions of every link in which messages go."""
    topology = mesh.topology
    backlogs = outbox_backlogs(mesh)  # first: waiting for heartbeats overlaps with asking brokers
    return [
        _flow(mesh, backlogs, source, target, topology.zone_over(link, source))
        for link in topology.links
        for source, target in (link.ends, link.ends[::-1])
        if topology.sends(source, target)
    ]


def _flow(
    mesh: RunningMesh,
    backlogs: Mapping[str, OutboxBacklog],
    source: str,
    target: str,
    zone: str,
) -> LinkFlow:
    is_sent, is_read = mesh.beats[source], mesh.beats[target]  # first: newer heartbeats come
    topology, view = mesh.topology, mesh.view
    reader = view.nodes[target]
    found = [backlogs.get(topology.names.outbox(source, target, one)) for one in MessageClass]
    known = [one for one in found if one is not None]
    counted = [one.messages for one in known if one.messages is not None]
    # A node reports that its own outbox is full, and what it reads of its neighbour's.
    reasons = [
        one.reason for one in reader.links if one.neighbour == source and one.state != LinkWord.FULL
    ]
    full = [
        one.reason
        for one in view.nodes[source].links
        if one.neighbour == target and one.state == LinkWord.FULL
    ]
    reasons += full
    pauses = {key: one for key, one in reader.pauses.items() if key.neighbour == source}
    state = _flow_state(reader, source, pauses) if is_read else LinkWord.UNKNOWN
    if full and is_sent and state not in (LinkWord.PAUSED, LinkWord.DISABLED):
        state = LinkWord.FULL
    disabled = reader.disabled.get(source) or view.nodes[source].disabled.get(target)
    return LinkFlow(
        source=source,
        target=target,
        zone=zone,
        kind=str(topology.zones[zone].kind),
        state=state,
        reason="; ".join(
            [
                *([] if is_read else [f"{target} is not up, and reads nothing of it"]),
                *filter(None, reasons),
                *([] if disabled is None else [_because(LinkWord.DISABLED, disabled)]),
                *map(_pause_text, pauses.items()),
            ]
        ),
        backlog_frames=sum(one.frames for one in known) if len(known) == len(found) else None,
        backlog_messages=sum(counted) if len(counted) == len(found) else None,
        wanted=None
        if view.is_unreachable(target)
        else sum(1 for _ in wanted_over(view, target, source, zone)),
    )


def _flow_state(reader: NodeView, source: str, pauses: Mapping[PauseKey, Pause]) -> str:
    state = LinkWord.DISABLED if reader.says_disabled(source) else link_state(reader, source)
    if state == LinkWord.FULL:
        state = LinkWord.UP  # what the reader itself sends there is another matter
    is_paused = any(key.partition is None for key in pauses)
    return LinkWord.PAUSED if state == LinkWord.UP and is_paused else state


def _pause_text(paused: tuple[PauseKey, Pause]) -> str:
    key, pause = paused
    what = "paused" if key.partition is None else f"partition {key.partition} paused"
    return _because(what, pause)


def _because(what: str, pause: Pause) -> str:
    return f"{what}: {pause.why}" if pause.why else what


def wanted_over(
    view: MeshView, wanting: str, of: str, zone: str, *, addresses: bool = False
) -> Iterator[tuple[Scope, str, Interest]]:
    """Yield what a node offers to a neighbour as its interest: scope, filter and what it asks for.

    Args:
        view: The mesh.
        wanting: The node that wants.
        of: The neighbour from which it wants it.
        zone: The zone of their link.
        addresses: Whether the addresses of nodes are among it. Spec: K26.
    """
    for scope, offers in sorted(view.nodes[wanting].offers.items()):
        if scope.zone != zone or scope.neighbour not in ("", of):
            continue
        for filter_, interest in sorted(offers.items(), key=lambda pair: pair[0]):
            if addresses or not filter_.startswith("$node/"):
                yield scope, filter_, interest


@dataclass(slots=True)
class OutboxBacklog:
    """What waits in one outbox.

    Attributes:
        frames: Frames that the reader has not passed.
        messages: Messages in them; None if there are too many frames to look at.
    """

    frames: int = 0
    messages: int | None = 0


def outbox_backlogs(mesh: RunningMesh) -> Mapping[str, OutboxBacklog]:
    """Return what waits in each outbox, by topic, as far as brokers answer."""

    def ask(name: str) -> Mapping[str, OutboxBacklog]:
        try:
            return _backlogs(mesh, name)
        except TransportError:
            return {}  # reported as unknown

    found: dict[str, OutboxBacklog] = {}
    asked = [name for name in mesh.kafka if name not in mesh.view.unreachable]
    for one in side_by_side(ask, asked):
        found |= one
    return found


def _backlogs(mesh: RunningMesh, name: str) -> Mapping[str, OutboxBacklog]:
    """Return the backlog of every outbox on a Kafka cluster, by topic; read all at once."""
    topology, cluster = mesh.topology, mesh.kafka[name]
    places: list[TopicPartition] = []
    told: dict[TopicPartition, OutboxPosition] = {}
    for source, target in _directions(topology, name):
        places += _outbox_places(topology, source, target)
        link = mesh.view.nodes[target].link_states.get(source)
        for one in link.positions if link is not None else ():
            told[TopicPartition(one.topic, one.partition)] = one
    ends = cluster.admin().stable_ends(places)
    positions = {**dict.fromkeys(places, 0), **_positions_read(cluster, told, ends)}
    backlogs = {place.topic: OutboxBacklog() for place in ends}
    unread = {place: end for place, end in ends.items() if end > positions[place]}
    starts = cluster.admin().starts(list(unread)) if unread else {}
    behind: dict[TopicPartition, int] = {}
    for place, end in unread.items():
        position = max(positions[place], starts.get(place, 0))
        if end - position > BACKLOG_FRAMES_MAX:
            backlogs[place.topic].frames += end - position
            backlogs[place.topic].messages = None
        elif end > position:
            behind[place] = position
    # Count actual records: the end of an outbox may be a transaction marker.
    for record in read_range(cluster, behind, ends):
        backlog = backlogs[record.topic()]
        backlog.frames += 1
        if backlog.messages is not None:
            backlog.messages += _messages_in(record)
    return backlogs


def _positions_read(
    cluster: KafkaCluster,
    told: Mapping[TopicPartition, OutboxPosition],
    ends: Mapping[TopicPartition, int],
) -> Mapping[TopicPartition, int]:
    """Return how far outboxes are read; reports about a former topic do not count.

    Ids are requested only where something may wait: a position at the very end is of this topic.
    """
    read = {place: max(0, one.read) for place, one in told.items() if place in ends}
    unsure = {place.topic: None for place, position in read.items() if position != ends[place]}
    infos = cluster.admin().describe(list(unsure)) if unsure else {}
    ids = {topic: info.topic_id for topic, info in infos.items()}
    return {
        place: position
        for place, position in read.items()
        if place.topic not in unsure or ids.get(place.topic) == told[place].topic_id
    }


def _directions(topology: Topology, kafka: str) -> Iterator[tuple[str, str]]:
    """Yield (source, target) of every link whose source is on a Kafka cluster."""
    for node, declared in topology.nodes.items():
        if declared.kafka == kafka:
            for neighbour in topology.neighbours(node):
                if topology.sends(node, neighbour):
                    yield node, neighbour


def _outbox_places(topology: Topology, source: str, target: str) -> Sequence[TopicPartition]:
    names, count = topology.names, topology.nodes[source].partitions
    return [
        place
        for message_class in MessageClass
        for place in TopicPartition.all_of(names.outbox(source, target, message_class), count)
    ]


def _messages_in(record: Record) -> int:
    try:
        return decode_header(record.key() or b"").origin.count
    except ProtocolError:
        return 0
