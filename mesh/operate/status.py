"""Which nodes are up, and their own reports, as the control topics show them.

No clock is compared with another: see `beats_on_demand`. Spec: K22-K24, K32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mesh.model.control import EndpointStatus, Heartbeat, Pause, Stop
from mesh.model.words import LinkWord, NodeWord
from mesh.operate.questions import OnDemand
from mesh.transport.clock import Timekeeper
from mesh.view.mesh_view import MeshView, RunningMesh
from mesh.view.node_view import NodeView
from mesh.wire.keys import PauseKey

LOOK_S = 0.1
QUICK_LOOK_S = 0.02
OBSERVE_S = 5.0
"""Five heartbeats: a node that has not beaten by then is not up."""
FRESH_MS = 2_500
"""A node whose beat is at most this much older than another's on its Kafka cluster is up."""
STALE_LOOK_S = 1.5
"""How long a node that is five heartbeats behind is observed before it is called down."""


def beats_on_demand(
    view: MeshView, time: Timekeeper, limit_s: float = OBSERVE_S, *, hears_each: bool = True
) -> Mapping[str, bool]:
    """Return which nodes beat: those heard from now on, waited for at the first access.

    Callers with questions to brokers ask them first: heartbeats arrive meanwhile.

    This waits until every node that ever beat has been heard again. A caller that does not need
    an exact answer does not wait for each: one fresh beat shows what time it is on a Kafka
    cluster, and nodes that beat there shortly before, by the time at which that very Kafka cluster
    appended the beat, are up. No clock is compared with another.

    Args:
        view: The mesh, refreshed just now: a beat that comes from now on is fresh.
        time: How time passes.
        limit_s: The longest wait.
        hears_each: Whether a node is up only if it beats from now on.
    """
    before = {name: seen.heartbeat for name, seen in view.nodes.items()}
    began_ms = time.now_ms()

    def heard() -> Mapping[str, bool]:
        while True:
            time.pause(LOOK_S if hears_each else QUICK_LOOK_S)
            view.glance()
            passed_s = (time.now_ms() - began_ms) / 1000
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

    return OnDemand(heard)


def observe(
    view: MeshView, time: Timekeeper, limit_s: float = OBSERVE_S, *, hears_each: bool = True
) -> Mapping[str, bool]:
    """Return which nodes beat, and wait for that now: see `beats_on_demand`."""
    return dict(beats_on_demand(view, time, limit_s, hears_each=hears_each))


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
    """Return how far a node's beat is behind the newest fresh one of its Kafka cluster.

    None before there is a fresh one.
    """
    fresh = [
        view.nodes[other].beat_ms
        for other in view.on_kafka_cluster_of(node)
        if view.nodes[other].heartbeat != before[other]
    ]
    return max(fresh) - view.nodes[node].beat_ms if fresh else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """One node.

    Attributes:
        state: How it is.
        epoch: Its incarnation; 0 before the first.
        uuid: Its intrinsic identity.
        is_known_everywhere: Whether all of its subscriptions are acknowledged; None if unknown.
        open_links: Links (from, to) that have not acknowledged them.
        links: State of each link as this node sees it, by neighbour.
        stops: What it reads no further until somebody accepts the loss.
        pauses: What it does not read because operators paused it.
        disabled: Neighbours whose link operators want it to disable.
        subject_pauses: Filters of what it does not take from its clients, likewise.
        endpoints_full: Its endpoints with something to report: see `EndpointStatus`.
        lacks_disabled_only: Whether all the open links are disabled.
        lost_topology: Number of the topology that its lanes worked by and that `mesh.config` no
            longer holds: they read nothing. 0 for none.
        unrecorded_topology: Number of the topology that it works by and that `mesh.config` no
            longer holds: another of its workers reads nothing if it has started since. 0 for none.
    """

    node: str
    kafka: str
    state: NodeWord
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
    lost_topology: int = 0
    unrecorded_topology: int = 0

    @property
    def is_well(self) -> bool:
        """Whether it serves, all its links are up and its subscriptions are known.

        Links that operators have disabled are no fault, and not waited for.
        """
        return (
            self.state == NodeWord.UP
            and not self.unrecorded_topology
            and (self.is_known_everywhere is not False or self.lacks_disabled_only)
            and not self.stops
            and not self.endpoints_full
            and all(state in (LinkWord.UP, LinkWord.DISABLED) for state in self.links.values())
        )


def node_statuses(mesh: RunningMesh) -> Sequence[NodeStatus]:
    """Return every node, in the order of the file."""
    return [_node_status(mesh, node) for node in mesh.topology.nodes]


def _node_status(mesh: RunningMesh, node: str) -> NodeStatus:
    topology, view, is_up = mesh.topology, mesh.view, mesh.beats[node]
    seen, declared = view.nodes[node], topology.nodes[node]
    ack = seen.subscribed
    known: bool | None = None
    if is_up and seen.clients_offset < 0:
        known = True
    elif is_up and ack is not None and ack.epoch == seen.epoch:
        known = ack.complete >= seen.clients_offset
    beat = seen.heartbeat if is_up else None
    return NodeStatus(
        node=node,
        kafka=declared.kafka,
        state=_state(view, node, is_up=is_up),
        epoch=seen.epoch,
        uuid=seen.uuid,
        lanes=declared.lanes,
        subscriptions=len(seen.subscriptions),
        endpoints=len({endpoint: None for endpoint, _ in seen.subscriptions}),
        is_known_everywhere=known,
        open_links=ack.open_links if ack is not None and known is False else (),
        links={
            other: link_state(seen, other) if is_up else LinkWord.UNKNOWN
            for other in topology.neighbours(node)
        },
        stops=[stop for _, stop in sorted(seen.stops.items())],
        pauses=dict(seen.pauses),
        disabled=dict(seen.disabled),
        subject_pauses=dict(seen.subject_pauses),
        endpoints_full=() if beat is None else beat.endpoints,
        lacks_disabled_only=ack is not None
        and all(view.is_to_be_disabled(*link) for link in ack.open_links),
        lost_topology=0 if beat is None else beat.lost_topology,
        unrecorded_topology=_unrecorded(view, declared.kafka, beat),
    )


def _unrecorded(view: MeshView, kafka: str, beat: Heartbeat | None) -> int:
    """Return the number of a later topology, by which a node works, than its workers can learn.

    Heartbeats are of the worker that leads the node: whether others wait nobody says.
    """
    change = None if beat is None or beat.lost_topology else beat.change
    if change is None or not change.stage.has_switched:
        return 0
    return change.number if 0 < view.number_in_force(kafka) < change.number else 0


def _state(view: MeshView, node: str, *, is_up: bool) -> NodeWord:
    seen = view.nodes[node]
    if view.is_unreachable(node):
        return NodeWord.UNREACHABLE
    if seen.identity is None:
        return NodeWord.NEVER
    if not is_up:
        return NodeWord.DOWN
    return NodeWord.UP if seen.is_ready else NodeWord.STARTING


def link_state(seen: NodeView, neighbour: str) -> str:
    """Return how a node's last heartbeat describes the link to a neighbour."""
    states = (link.state for link in seen.links if link.neighbour == neighbour)
    return next(states, LinkWord.UNKNOWN)
