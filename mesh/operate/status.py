"""Who is up, what every link does and who wants what, as the control topics show it.

Nobody's clock is compared with another's: see `observe`. Spec: K22-K24, K32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.codec.frames import decode_header
from mesh.codec.keys import PauseKey
from mesh.errors import ProtocolError, TransportError
from mesh.model.control import (
    DISABLED,
    FULL,
    EndpointStatus,
    Heartbeat,
    Pause,
    Scope,
    Stop,
    Wish,
)
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.port import KafkaCluster, Record, TopicPartition
from mesh.transport.reading import read_range
from mesh.view.disabling import is_to_be_disabled, says_disabled
from mesh.view.mesh_view import MeshView, NodeView

LOOK_S = 0.1
QUICK_LOOK_S = 0.02
OBSERVE_S = 5.0
"""Five heartbeats: whoever has not beaten by then is not up now."""
FRESH_MS = 2_500
"""Who has beaten so shortly before another on the same Kafka cluster is up: two may be missed."""
STALE_LOOK_S = 1.5
"""Whoever is five heartbeats behind is heard for so long before it is called down."""

UNKNOWN = "unknown"
UP, PAUSED = "up", "paused"
BACKLOG_FRAMES_MAX = 5_000
"""Waiting frames of one partition that are counted one by one; above, offsets are."""


def observe(
    view: MeshView,
    now_ms: Callable[[], int],
    pause: Callable[[float], object],
    limit_s: float = OBSERVE_S,
    *,
    hears_each: bool = True,
) -> Mapping[str, bool]:
    """Look at the heartbeats for a moment; return which nodes beat.

    Ends as soon as every node that ever beat has been heard again. Who need not know it to the
    second does not hear each: one fresh beat tells what time it is on a Kafka cluster, and who has
    beaten there shortly before, by the time at which that very Kafka cluster appended it, is up.
    No clock is compared with another.

    Args:
        view: The mesh, refreshed just now: a beat that comes from now on is fresh.
        now_ms: Monotonic clock.
        pause: Lets time pass.
        limit_s: The longest look.
        hears_each: Whether a node is up only if it beats while we look.
    """
    before = {name: seen.heartbeat for name, seen in view.nodes.items()}
    began = now_ms()
    while True:
        pause(LOOK_S if hears_each else QUICK_LOOK_S)
        view.glance()
        passed_s = (now_ms() - began) / 1000
        up = {name: _is_up(view, name, before, hears_each=hears_each) for name in before}
        waited = [
            name
            for name, is_up in up.items()
            if not is_up and before[name] is not None and not view.is_unreachable(name)
        ]
        if not hears_each:
            waited = [name for name in waited if _may_come(view, name, before, passed_s)]
        if not waited or passed_s > limit_s:
            return up


def _may_come(
    view: MeshView, node: str, before: Mapping[str, Heartbeat | None], passed_s: float
) -> bool:
    """Return whether a node that is not heard yet may be up all the same."""
    behind = _behind_ms(view, node, before)
    return behind is None or behind <= OBSERVE_S * 1000 or passed_s < STALE_LOOK_S


def _is_up(
    view: MeshView, node: str, before: Mapping[str, Heartbeat | None], *, hears_each: bool
) -> bool:
    if view.nodes[node].heartbeat != before[node]:
        return True
    if hears_each or before[node] is None or view.is_unreachable(node):
        return False
    behind = _behind_ms(view, node, before)
    return behind is not None and behind <= FRESH_MS


def _behind_ms(view: MeshView, node: str, before: Mapping[str, Heartbeat | None]) -> int | None:
    """Return how far a node's beat lies behind the newest fresh one of its Kafka cluster.

    None before there is a fresh one.
    """
    fresh = [
        view.nodes[other].beat_ms
        for other in view.beside(node)
        if view.nodes[other].heartbeat != before[other]
    ]
    return max(fresh) - view.nodes[node].beat_ms if fresh else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """One node.

    Attributes:
        state: up, starting, down, never (started), unreachable.
        epoch: Its incarnation; 0 before the first.
        uuid: Its intrinsic identity.
        is_known_everywhere: Whether all of its subscriptions are acknowledged; None if unknown.
        open_links: Links (from, to) that have not acknowledged them.
        links: State of each link as this node sees it, by neighbour.
        stops: What it reads no further until somebody accepts what is lost.
        pauses: What it does not read because operators want it so.
        disabled: Neighbours whose link operators want it to disable.
        subject_pauses: Filters of what it does not take of its clients, likewise.
        endpoints_full: Its endpoints of which something is to be told: see `EndpointStatus`.
        lacks_disabled_only: Whether all the open links are disabled.
    """

    node: str
    kafka: str
    state: str
    epoch: int
    uuid: str
    lanes: int
    subscriptions: int
    endpoints: int
    is_known_everywhere: bool | None
    open_links: Sequence[tuple[str, str]]
    links: Mapping[str, str]
    stops: Sequence[Stop] = ()
    pauses: Mapping[PauseKey, Pause] = field(default_factory=dict)
    disabled: Mapping[str, Pause] = field(default_factory=dict)
    subject_pauses: Mapping[str, Pause] = field(default_factory=dict)
    endpoints_full: Sequence[EndpointStatus] = ()
    lacks_disabled_only: bool = False

    @property
    def is_well(self) -> bool:
        """Whether it serves, all its links are up and its subscriptions are known.

        What operators have disabled is no fault, and not waited for.
        """
        return (
            self.state == "up"
            and (self.is_known_everywhere is not False or self.lacks_disabled_only)
            and not self.stops
            and not self.endpoints_full
            and all(state in (UP, DISABLED) for state in self.links.values())
        )


def node_statuses(
    topology: Topology, view: MeshView, beats: Mapping[str, bool]
) -> Sequence[NodeStatus]:
    """Return every node, in the order of the file."""
    return [_node_status(topology, view, node, is_up=beats[node]) for node in topology.nodes]


def _node_status(topology: Topology, view: MeshView, node: str, *, is_up: bool) -> NodeStatus:
    seen = view.nodes[node]
    declared = topology.nodes[node]
    ack = seen.subscribed
    known: bool | None = None
    if is_up and seen.clients_offset < 0:
        known = True
    elif is_up and ack is not None and ack.epoch == seen.epoch:
        known = ack.complete >= seen.clients_offset
    return NodeStatus(
        node=node,
        kafka=declared.kafka,
        state=_state(view, node, is_up=is_up),
        epoch=seen.epoch,
        uuid=seen.identity.uuid if seen.identity is not None else "",
        lanes=declared.lanes,
        subscriptions=len(seen.subscriptions),
        endpoints=len({endpoint: None for endpoint, _ in seen.subscriptions}),
        is_known_everywhere=known,
        open_links=ack.open_links if ack is not None and known is False else (),
        links={
            other: link_state(seen, other) if is_up else UNKNOWN
            for other in topology.neighbours(node)
        },
        stops=[stop for _, stop in sorted(seen.stops.items())],
        pauses=dict(seen.pauses),
        disabled=dict(seen.disabled),
        subject_pauses=dict(seen.subject_pauses),
        endpoints_full=seen.heartbeat.endpoints if is_up and seen.heartbeat is not None else (),
        lacks_disabled_only=ack is not None
        and all(is_to_be_disabled(view, *link) for link in ack.open_links),
    )


def _state(view: MeshView, node: str, *, is_up: bool) -> str:
    seen = view.nodes[node]
    if view.is_unreachable(node):
        return "unreachable"
    if seen.identity is None:
        return "never"
    if not is_up:
        return "down"
    return "up" if seen.is_ready else "starting"


def link_state(seen: NodeView, neighbour: str) -> str:
    """Return how a node's last heartbeat describes the link to a neighbour."""
    links = seen.heartbeat.links if seen.heartbeat is not None else ()
    return next((link.state for link in links if link.neighbour == neighbour), UNKNOWN)


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
        wanted: Filters that the reader wants of the sender, addresses of nodes apart.
    """

    source: str
    target: str
    zone: str
    kind: str
    state: str
    reason: str
    backlog_frames: int | None
    backlog_messages: int | None
    wanted: int


def link_flows(
    topology: Topology,
    view: MeshView,
    beats: Mapping[str, bool],
    kafka: Mapping[str, KafkaCluster],
) -> Sequence[LinkFlow]:
    """Return the directions of every link in which messages go."""
    backlogs = outbox_backlogs(topology, view, kafka)
    return [
        _flow(topology, view, beats, backlogs, source, target, topology.zone_over(link, source))
        for link in topology.links
        for source, target in (link.ends, link.ends[::-1])
        if topology.sends(source, target)
    ]


def _flow(
    topology: Topology,
    view: MeshView,
    beats: Mapping[str, bool],
    backlogs: Mapping[str, Backlog],
    source: str,
    target: str,
    zone: str,
) -> LinkFlow:
    reader = view.nodes[target]
    names = TopicNames(topology.prefix)
    found = [backlogs.get(names.outbox(source, target, one)) for one in MessageClass]
    known = [one for one in found if one is not None]
    counted = [one.messages for one in known if one.messages is not None]
    links = reader.heartbeat.links if reader.heartbeat is not None else ()
    # A node says of its own outbox that it is full, and of its neighbour's what it reads of it.
    reasons = [one.reason for one in links if one.neighbour == source and one.state != FULL]
    written = view.nodes[source].heartbeat
    full = [
        one.reason
        for one in (written.links if written is not None else ())
        if one.neighbour == target and one.state == FULL
    ]
    reasons += full
    pauses = {key: one for key, one in reader.pauses.items() if key.neighbour == source}
    state = _flow_state(reader, source, pauses) if beats[target] else UNKNOWN
    if full and beats[source] and state not in (PAUSED, DISABLED):
        state = FULL
    disabled = reader.disabled.get(source) or view.nodes[source].disabled.get(target)
    return LinkFlow(
        source=source,
        target=target,
        zone=zone,
        kind=str(topology.zones[zone].kind),
        state=state,
        reason="; ".join(
            [
                *filter(None, reasons),
                *([] if disabled is None else [_because(DISABLED, disabled)]),
                *map(_pause_text, pauses.items()),
            ]
        ),
        backlog_frames=sum(one.frames for one in known) if len(known) == len(found) else None,
        backlog_messages=sum(counted) if len(counted) == len(found) else None,
        wanted=sum(1 for _ in wanted_over(view, target, source, zone)),
    )


def _flow_state(reader: NodeView, source: str, pauses: Mapping[PauseKey, Pause]) -> str:
    state = DISABLED if says_disabled(reader, source) else link_state(reader, source)
    if state == FULL:
        state = UP  # what the reader itself sends there is another matter
    return PAUSED if state == UP and any(key.partition is None for key in pauses) else state


def _pause_text(paused: tuple[PauseKey, Pause]) -> str:
    key, pause = paused
    what = "paused" if key.partition is None else f"partition {key.partition} paused"
    return _because(what, pause)


def _because(what: str, pause: Pause) -> str:
    return f"{what}: {pause.why}" if pause.why else what


def wanted_over(
    view: MeshView, wanting: str, of: str, zone: str, *, addresses: bool = False
) -> Iterator[tuple[Scope, str, Wish]]:
    """Yield what a node offers to a neighbour as its interest: scope, filter and wish.

    Args:
        view: The mesh.
        wanting: The node that wants.
        of: The neighbour that it wants it of.
        zone: The zone of their link.
        addresses: Whether the addresses of nodes are among it. Spec: K26.
    """
    for scope, offers in sorted(view.nodes[wanting].offers.items()):
        if scope.zone != zone or scope.neighbour not in ("", of):
            continue
        for filter_, wish in sorted(offers.items(), key=lambda pair: pair[0]):
            if addresses or not filter_.startswith("$node/"):
                yield scope, filter_, wish


@dataclass(slots=True)
class Backlog:
    """What waits in one outbox.

    Attributes:
        frames: Frames that the reader has not passed.
        messages: Messages in them; None if there are too many frames to look at.
    """

    frames: int = 0
    messages: int | None = 0


def outbox_backlogs(
    topology: Topology, view: MeshView, kafka: Mapping[str, KafkaCluster]
) -> Mapping[str, Backlog]:
    """Return what waits in each outbox, by topic, as far as brokers answer."""
    backlogs: dict[str, Backlog] = {}
    for name, cluster in kafka.items():
        if name in view.unreachable:
            continue
        try:
            backlogs |= _backlogs(topology, view, name, cluster)
        except TransportError:
            continue  # told as unknown
    return backlogs


def _backlogs(
    topology: Topology, view: MeshView, name: str, cluster: KafkaCluster
) -> Mapping[str, Backlog]:
    """Return the backlog of every outbox on a Kafka cluster, by topic; read all at once."""
    positions: dict[TopicPartition, int] = {}
    for source, target in _directions(topology, name):
        places = _outbox_places(topology, source, target)
        positions |= dict.fromkeys(places, 0)
        link = view.nodes[target].link_states.get(source)
        for told in link.positions if link is not None else ():
            positions[TopicPartition(told.topic, told.partition)] = max(0, told.read)
    ends = cluster.admin().stable_ends(list(positions))
    starts = cluster.admin().starts(list(positions))
    backlogs = {place.topic: Backlog() for place in ends}
    behind: dict[TopicPartition, int] = {}
    for place, end in ends.items():
        position = max(positions[place], starts.get(place, 0))
        if end - position > BACKLOG_FRAMES_MAX:
            backlogs[place.topic].frames += end - position
            backlogs[place.topic].messages = None
        elif end > position:
            behind[place] = position
    # Real records are counted: what lies at the end of an outbox may be a transaction marker.
    for record in read_range(cluster, behind, ends):
        backlog = backlogs[record.topic()]
        backlog.frames += 1
        if backlog.messages is not None:
            backlog.messages += _messages_in(record)
    return backlogs


def _directions(topology: Topology, kafka: str) -> Iterator[tuple[str, str]]:
    """Yield (source, target) of every link whose source is on a Kafka cluster."""
    for node, declared in topology.nodes.items():
        if declared.kafka == kafka:
            for neighbour in topology.neighbours(node):
                if topology.sends(node, neighbour):
                    yield node, neighbour


def _outbox_places(topology: Topology, source: str, target: str) -> Sequence[TopicPartition]:
    names = TopicNames(topology.prefix)
    return [
        TopicPartition(names.outbox(source, target, message_class), partition)
        for message_class in MessageClass
        for partition in range(topology.nodes[source].partitions)
    ]


def _messages_in(record: Record) -> int:
    try:
        return decode_header(record.key() or b"").origin.count
    except ProtocolError:
        return 0
