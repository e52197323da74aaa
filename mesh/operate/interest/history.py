"""Interest and since when, also in the past: from the uncompacted copy of control topics.

The copy is kept for a week; entries older than that which still hold are in the control topic
itself, whose records carry the time of their last change. Spec: kafka.md 1 (`control.log`), K5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mesh.errors import ProtocolError, TransportError
from mesh.model.control import Interest, Scope, Subscription
from mesh.model.topology import Topology
from mesh.transport.port import KafkaCluster, Record, TopicPartition
from mesh.transport.reading import read_logs
from mesh.view.mesh_view import RunningMesh
from mesh.view.node_view import NodeView
from mesh.wire.control import decode_advert
from mesh.wire.keys import NODE_KEYS, AdvertKey, parse_key, parse_subscription_key
from mesh.wire.subscriptions import decode_subscription

Entries = dict[tuple[Scope, str], Record]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOffer:
    """One entry that a node offered at some moment.

    Attributes:
        scope, filter: The scope, and what it wanted.
        interest: Its interest; None if only its end is still on record.
        since_ms: Since when, broker's time; None if that is older than the copy.
    """

    scope: Scope
    filter: str
    interest: Interest | None
    since_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldSubscription:
    """A subscription that was in force at some moment.

    Attributes:
        endpoint, filter, subscription: What was wanted.
        since_ms: Since when, broker's time.
    """

    endpoint: str
    filter: str
    subscription: Subscription
    since_ms: int


@dataclass(frozen=True, slots=True)
class InterestAt:
    """What a node wanted at a moment.

    Attributes:
        offers: What it offered to its neighbours, by scope and filter.
        subscriptions: Of its own clients, without those that have ended since, about which its
            own topics no longer say anything.
    """

    offers: tuple[HeldOffer, ...]
    subscriptions: tuple[HeldSubscription, ...]


def interest_now(seen: NodeView) -> InterestAt:
    """Return what a node wants now, as a view has read it."""
    return InterestAt(
        tuple(
            HeldOffer(
                scope=scope,
                filter=filter_,
                interest=seen.offers[scope][filter_],
                since_ms=seen.offered_ms[scope, filter_],
            )
            for scope, filter_ in sorted(seen.offered_ms)
        ),
        subscriptions_now(seen),
    )


def subscriptions_now(seen: NodeView) -> tuple[HeldSubscription, ...]:
    """Return what clients of a node want now, as a view has read it."""
    return tuple(
        HeldSubscription(
            endpoint=endpoint,
            filter=filter_,
            subscription=seen.subscriptions[endpoint, filter_],
            since_ms=seen.subscribed_ms[endpoint, filter_],
        )
        for endpoint, filter_ in sorted(seen.subscriptions)
    )


def interest_at(
    topology: Topology,
    cluster: KafkaCluster,
    node: str,
    at_ms: int,
) -> InterestAt:
    """Return what a node wanted at a moment.

    Args:
        topology: The mesh.
        cluster: The node's Kafka cluster.
        node: The node.
        at_ms: The moment, ms since 1970 by the broker's clock.

    Raises:
        TransportUnavailableError: The topics cannot be read.
    """
    names = topology.names
    compacted, log, clients = names.control(node), names.control_log(node), names.clients(node)
    held: Entries = {}
    before: Entries = {}
    after: Entries = {}
    interests: dict[tuple[str, str], HeldSubscription] = {}
    places = [TopicPartition(topic, 0) for topic in (compacted, clients, log)]
    for record in read_logs(cluster, places, name="past"):
        if record.topic() == clients:
            _take_subscription(interests, record, at_ms)
            continue
        key = _advert_key(record)
        if key is None:
            continue
        if record.topic() == compacted:
            held[key] = record
        elif record.timestamp()[1] <= at_ms:
            before[key] = record
        else:
            after.setdefault(key, record)
    return InterestAt(
        tuple(_offers(held, before, after, at_ms)),
        tuple(interests[key] for key in sorted(interests)),
    )


def interest_then(mesh: RunningMesh, node: str, at_ms: int) -> InterestAt:
    """Return what a node wanted at a moment, including what a view knows beyond its topics.

    When a lease is renewed, compaction removes the original statement; a view that has watched
    since then still knows it.

    Raises:
        TransportUnavailableError: The topics cannot be read.
    """
    past = interest_at(mesh.topology, mesh.home_of(node), node, at_ms)
    told = {(one.endpoint, one.filter) for one in past.subscriptions}
    standing = (
        one
        for one in subscriptions_now(mesh.view.nodes[node])
        if one.since_ms <= at_ms and (one.endpoint, one.filter) not in told
    )
    return replace(past, subscriptions=(*past.subscriptions, *standing))


def interest_around(
    mesh: RunningMesh,
    nodes: Sequence[str],
    at_ms: int | None,
    tell: Callable[[str], None] | None = None,
) -> Mapping[str, InterestAt]:
    """Return what nodes and their neighbours wanted, without those that cannot be reached.

    Args:
        mesh: The mesh.
        nodes: Which nodes.
        at_ms: The moment, ms since 1970; None for now.
        tell: Notified of a node whose past cannot be read; without it that is an error.

    Raises:
        TransportError: The past of one cannot be read.
    """
    neighbours = [other for node in nodes for other in mesh.topology.neighbours(node)]
    found: dict[str, InterestAt] = {}
    for node in dict.fromkeys((*nodes, *neighbours)):
        if mesh.view.is_unreachable(node):
            continue
        if at_ms is None:
            found[node] = interest_now(mesh.view.nodes[node])
            continue
        try:
            found[node] = interest_then(mesh, node, at_ms)
        except TransportError as error:
            if tell is None:
                raise
            tell(f"what {node} wants is not known: {error}")
    return found


def _advert_key(record: Record) -> tuple[Scope, str] | None:
    try:
        key = parse_key(record.key() or b"", NODE_KEYS)
    except ProtocolError:
        return None
    return (key.scope, key.filter) if isinstance(key, AdvertKey) else None


def _take_subscription(
    interests: dict[tuple[str, str], HeldSubscription], record: Record, at_ms: int
) -> None:
    since = record.timestamp()[1]
    try:
        endpoint, filter_ = parse_subscription_key(record.key() or b"")
        value = record.value()
        before = interests.pop((endpoint, filter_), None)
        asked = None if value is None else decode_subscription(value)
    except ProtocolError:
        return
    if asked is None:
        return
    if since > at_ms or (before is not None and before.subscription == asked):
        # It changed only later, or a lease was renewed: the earlier statement holds.
        if before is not None:
            interests[endpoint, filter_] = before
    else:
        interests[endpoint, filter_] = HeldSubscription(
            endpoint=endpoint, filter=filter_, subscription=asked, since_ms=since
        )


def _offers(held: Entries, before: Entries, after: Entries, at_ms: int) -> Iterator[HeldOffer]:
    for scope, filter_ in sorted({**held, **before, **after}):
        key = (scope, filter_)
        if (record := before.get(key)) is not None:
            since: int | None = record.timestamp()[1]
        elif key in after:
            # What ended after the moment, and began before the copy does, was in force.
            if after[key].value() is None:
                yield HeldOffer(scope=scope, filter=filter_, interest=None, since_ms=None)
            continue
        else:
            record, since = held[key], held[key].timestamp()[1]
            if since > at_ms:
                continue
        value = record.value()
        if value is None:
            continue
        try:
            interest = decode_advert(value)
        except ProtocolError:
            continue
        yield HeldOffer(scope=scope, filter=filter_, interest=interest, since_ms=since)
