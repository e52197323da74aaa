"""Every queue of a mesh: its members, who consumes there, and what waits. Spec: DESIGN 6."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mesh.core.moving import is_client
from mesh.errors import DecodeError, TransportError
from mesh.model.control import EndpointKind, Subscription
from mesh.model.names import fold
from mesh.model.queues import Attraction, MemberKind, Queue, QueuePolicy, is_of_queue, member_of
from mesh.model.topology import Topology
from mesh.operate.endpoints.waiting import waiting_behind
from mesh.operate.interest.history import HeldSubscription, InterestAt
from mesh.operate.questions import side_by_side
from mesh.transport.port import Record, TopicPartition
from mesh.view.mesh_view import RunningMesh
from mesh.view.messages import received

LEFT = "left"
"""Kind of a node that has left a queue with messages in it."""

UNKNOWN = "unknown"
"""Stands in for the node where a message was published, if the message does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMember:
    """A queue at one node.

    Attributes:
        node: The node.
        kind: home, proxy, any, every or local; `left` if nobody subscribes to it there any more and
            messages wait to be moved on; empty if the node offers nothing of it.
        filters: The subjects that it wants there.
        consumers: Clients that consume it; None if the Kafka cluster does not say, or for the past.
        movers: Members of its group that send its messages on; None likewise.
        waiting: Messages that no consumer is done with; None if unknown.
        is_counted: Whether these are messages; else they are offsets, which are more.
        origins: Nodes where the counted messages were published; for one that was moved here, the
            node that moved it.
        dead_letters: Messages that its consumers gave up; None if unknown.
    """

    node: str
    kind: str
    filters: Sequence[str]
    consumers: int | None = None
    movers: int | None = None
    waiting: int | None = None
    is_counted: bool = True
    origins: Mapping[str, int] = field(default_factory=dict)
    dead_letters: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """All queues of one name.

    Attributes:
        name: As it is declared, or as its first member has it.
        policy: Policy of all of them.
        home: The node that has it; empty unless the policy is home, or while there is none.
        members: One per node, by name.
        declared: The topology's declaration, or None.
        unknown: Nodes that may be members, too: their Kafka cluster does not answer.
    """

    name: str
    policy: QueuePolicy
    home: str
    members: Sequence[QueueMember]
    declared: Queue | None
    unknown: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a node wants: subscriptions by endpoint and filter, and what it offers neighbours."""

    subscriptions: Mapping[tuple[str, str], Subscription]
    entries: Sequence[str]


Ask = Callable[[str, str, str, Sequence[str]], QueueMember]
"""Makes a member of its node, endpoint, kind and filters."""


def queue_statuses(mesh: RunningMesh) -> Sequence[QueueStatus]:
    """Return every queue that is declared or subscribed, by name."""
    topology, view = mesh.topology, mesh.view
    wanted = {
        node: _Wanted(
            view.nodes[node].subscriptions,
            [entry for offers in view.nodes[node].offers.values() for entry in offers],
        )
        for node in topology.nodes
    }

    def ask(node: str, endpoint: str, kind: str, filters: Sequence[str]) -> QueueMember:
        return _member(mesh, QueueMember(node=node, kind=kind, filters=filters), endpoint)

    unknown = [node for node in topology.nodes if view.is_unreachable(node)]
    return _statuses(topology, wanted, ask, unknown)


def queue_statuses_then(
    topology: Topology,
    pasts: Mapping[str, InterestAt],
    ended: Mapping[str, Sequence[HeldSubscription]],
) -> Sequence[QueueStatus]:
    """Return every queue that was subscribed to at a past moment, or is declared, by name.

    What waited in it then, and who consumed it, is not on record.

    Args:
        topology: The topology in force.
        pasts: What nodes wanted then; unknown ones left out.
        ended: Subscriptions of that time that have ended since, by node, as far as on record.
    """
    wanted: dict[str, _Wanted] = {}
    for node in topology.nodes:
        past = pasts.get(node, InterestAt((), ()))
        held = [*past.subscriptions, *ended.get(node, ())]
        subscriptions = {(one.endpoint, one.filter): one.subscription for one in held}
        wanted[node] = _Wanted(subscriptions, [one.filter for one in past.offers])

    def ask(node: str, _endpoint: str, kind: str, filters: Sequence[str]) -> QueueMember:
        return QueueMember(node=node, kind=kind, filters=filters)

    unknown = [node for node in topology.nodes if node not in pasts]
    return _statuses(topology, wanted, ask, unknown)


def _statuses(
    topology: Topology, wanted: Mapping[str, _Wanted], ask: Ask, unknown: Sequence[str]
) -> Sequence[QueueStatus]:
    declared = {fold(name): queue for name, queue in topology.queues.items()}
    found: dict[str, dict[str, dict[str, Subscription]]] = {name: {} for name in declared}
    names = {name: queue.name for name, queue in declared.items()}
    for node, of in wanted.items():
        for (endpoint, filter_), one in of.subscriptions.items():
            if one.kind is EndpointKind.QUEUE:
                names.setdefault(fold(endpoint), endpoint)
                members = found.setdefault(fold(endpoint), {})
                members.setdefault(f"{node} {endpoint}", {})[filter_] = one
        for endpoint in _left(node, of):
            names.setdefault(fold(endpoint), endpoint)
            found.setdefault(fold(endpoint), {})[f"{node} {endpoint}"] = {}
    statuses = [
        _status(topology, wanted, ask, names[name], declared.get(name), found[name], unknown)
        for name in sorted(found)
    ]
    return [one for one in statuses if one.declared or one.members]


def _status(
    topology: Topology,
    wanted: Mapping[str, _Wanted],
    ask: Ask,
    name: str,
    declared: Queue | None,
    found: Mapping[str, Mapping[str, Subscription]],
    unknown: Sequence[str],
) -> QueueStatus:
    said = [one.policy for filters in found.values() for one in filters.values() if one.policy]
    unsaid = [topology.unsaid_policy(key.partition(" ")[0]) for key in sorted(found)]
    policy = declared.policy if declared else QueuePolicy([*said, *unsaid, QueuePolicy.EVERY][0])

    def member(key: str) -> QueueMember:
        node, _, endpoint = key.partition(" ")
        own = policy if policy.is_shared or said or declared else topology.unsaid_policy(node)
        kind = _kind(wanted[node], node, endpoint, own) if found[key] else LEFT
        return ask(node, endpoint, kind, sorted(found[key]))

    asked = side_by_side(member, sorted(found))
    members = [one for one in asked if one.kind != LEFT or one.waiting != 0]
    home = "" if declared is None else declared.home or ""
    homes = [home] if home else [one.node for one in members if one.kind == MemberKind.HOME]
    return QueueStatus(
        name=name,
        policy=policy,
        home=homes[0] if homes and policy is QueuePolicy.HOME else "",
        members=members,
        declared=declared,
        unknown=unknown,
    )


def _kind(wanted: _Wanted, node: str, endpoint: str, policy: QueuePolicy) -> str:
    """Return a node's role for a queue, by what it offers; empty unless the queue is shared."""
    if not policy.is_shared:
        return policy.value
    for entry in wanted.entries:
        attraction = Attraction.parse(entry)
        if attraction is not None and (attraction.node, attraction.queue) == (node, endpoint):
            return attraction.kind.value
    return ""


def _left(node: str, wanted: _Wanted) -> Iterator[str]:
    """Yield queues that a node still has an address for, and no subscription."""
    has = {endpoint: None for endpoint, _ in wanted.subscriptions}
    for entry in dict.fromkeys(wanted.entries):
        if is_of_queue(entry) and Attraction.parse(entry) is None:
            endpoint, at = member_of(entry)
            if at == node and endpoint not in has:
                yield endpoint


def _member(mesh: RunningMesh, known: QueueMember, endpoint: str) -> QueueMember:
    """Return a member with what its Kafka cluster says, if that answers."""
    names, kafka = mesh.topology.names, mesh.home_of(known.node)
    group = topic = names.endpoint(known.node, endpoint)
    count = mesh.topology.nodes[known.node].partitions
    places = TopicPartition.all_of(topic, count)
    letters = TopicPartition.all_of(names.queue_letters(known.node, endpoint), count)
    try:
        members = kafka.admin().group_members(group)
        told = kafka.admin().passed(group, places)
        passed = {at: one.offset for at, one in told.items()}
        waiting = waiting_behind(kafka, passed, places, _origin)
        given_up = waiting_behind(kafka, {}, letters)
    except TransportError:
        return known
    consumers = sum(map(is_client, members))
    return replace(
        known,
        consumers=consumers,
        movers=len(members) - consumers,
        waiting=waiting.count,
        is_counted=waiting.is_counted,
        origins=waiting.by,
        dead_letters=given_up.count,
    )


def _origin(record: Record) -> str:
    """Return the node where a message was published."""
    try:
        return received(record).path[0]
    except DecodeError:
        return UNKNOWN
