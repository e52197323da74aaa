"""The Kafka topics of one node, and their settings. Spec: kafka.md 1, K2, K5, K6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import structlog

from mesh.errors import StartError, TransportDeniedError, TransportUnavailableError
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.port import Admin, KafkaCluster, TopicSpec

log = structlog.get_logger()

HEADROOM_BYTES = 100_000
"""What topics allow beyond the largest message: frame and delivery headers. Spec: K6."""

FOREVER = "-1"
"""Value of a topic's limits by which Kafka deletes nothing itself."""

MAKE_MS = 1_000
"""How long changes of interest wait for the topic of a new endpoint; then it is left out."""

_DIRECT_BYTES = str(256 << 20)
_WEEK_MS = str(7 * 24 * 3600 * 1000)
_FOREVER = {"retention.ms": FOREVER, "retention.bytes": FOREVER}
_BOUNDED = {"retention.ms": FOREVER, "retention.bytes": _DIRECT_BYTES}
_CLIENT_TIME = {"message.timestamp.type": "CreateTime"}
_BROKER_TIME = {"message.timestamp.type": "LogAppendTime"}
_COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": str(4 << 20),
    "segment.ms": "600000",
    "min.cleanable.dirty.ratio": "0.2",
    "delete.retention.ms": _WEEK_MS,
    **_BROKER_TIME,
}
_LOGGED = {"cleanup.policy": "delete", "retention.ms": _WEEK_MS, **_BROKER_TIME}

_LOGGED_CONTROL = {
    **_LOGGED,
    "retention.bytes": str(256 << 20),
    "segment.bytes": str(32 << 20),
}
"""Most of it are heartbeats, of one to two kB a second: a week of them are a GB and more, and who
asks for interest at a past moment reads all of it. The compacted topic knows what is older."""

_STANDING = {
    **_COMPACTED,
    "cleanup.policy": "compact,delete",
    "retention.ms": str(24 * 3600 * 1000),
}
"""For what is said again from time to time, as long as it holds."""

_PROMISED = ("max.message.bytes", "retention.ms", "retention.bytes")
"""Settings on which promises hang; of direct messages only the first."""

_PASSING = {
    "cleanup.policy": "delete",
    "retention.ms": "600000",
    "retention.bytes": str(64 << 20),
    "segment.bytes": str(16 << 20),
    **_BROKER_TIME,
}
"""Of what is of use for a moment, and never read again."""


def node_topics(topology: Topology, node: str) -> Sequence[TopicSpec]:
    """Return every topic that a node owns but its endpoints."""
    names = TopicNames(topology.prefix)
    lanes = topology.nodes[node].lanes
    data = topology.nodes[node].partitions
    neighbours = [link.other(node) for link in topology.links_of(node)]
    wanted: list[tuple[str, int, Mapping[str, str]]] = [
        (names.clients(node), 1, _COMPACTED),
        (names.control(node), 1, _COMPACTED),
        (names.control_log(node), 1, _LOGGED_CONTROL),
        (names.progress(node), 2 * lanes, _COMPACTED),
        (names.ledger(node), 2 * lanes, _LOGGED),
        (names.dead_letters(node), 2 * lanes, _LOGGED),
        (names.learned(node), 1, _COMPACTED),
        (names.lanes(node), lanes, _LOGGED),
        (names.config(), 1, _COMPACTED),
        (names.roles(node), 1, _COMPACTED),
        (names.routes(node), 1, _STANDING),
    ]
    for message_class in MessageClass:
        kept = _kept(message_class)
        wanted.append((names.ingress(node, message_class), data, {**kept, **_CLIENT_TIME}))
        wanted += [
            (names.outbox(node, neighbour, message_class), data, {**kept, **_BROKER_TIME})
            for neighbour in neighbours
            if topology.sends(node, neighbour)
        ]
    wanted += [(names.to_control(node, neighbour), 1, _COMPACTED) for neighbour in neighbours]
    wanted += [(names.to_trees(node, neighbour), 1, _PASSING) for neighbour in neighbours]
    return [
        *(_spec(topology, *topic) for topic in wanted),
        _of_applications(topology, names.sends(node)),
    ]


def app_topic(topology: Topology, node: str, app: str) -> TopicSpec:
    """Return the topic of what one application is told."""
    return _of_applications(topology, TopicNames(topology.prefix).app(node, app))


def _of_applications(topology: Topology, name: str) -> TopicSpec:
    """Return a topic whose records are JSON: base64 makes three bytes four."""
    spec = _spec(topology, name, 1, _PASSING)
    limit = str(topology.max_message_bytes * 4 // 3 + HEADROOM_BYTES)
    return TopicSpec(
        name=name, partitions=1, settings={**spec.settings, "max.message.bytes": limit}
    )


def config_topic(topology: Topology) -> TopicSpec:
    """Return the topic of what operators want, which is in every Kafka cluster."""
    return _spec(topology, TopicNames(topology.prefix).config(), 1, _COMPACTED)


def refuse_aliases(kafka: Mapping[str, KafkaCluster]) -> None:
    """Make sure that these names stand for different Kafka clusters. Spec: K4, EMS-16.

    Identity is the `cluster.id` that the brokers report, never a name or an address. One that
    does not answer is left out: whoever needs it says so.

    Raises:
        StartError: Two names are one Kafka cluster.
    """
    seen: dict[str, str] = {}
    for name, cluster in kafka.items():
        try:
            identity = cluster.admin().cluster_id()
        except TransportUnavailableError:
            continue
        if identity in seen:
            raise StartError(
                f"kafka {seen[identity]} and {name} are one Kafka cluster ({identity}): "
                "give each its own, or use one name for both"
            )
        seen[identity] = name


def endpoint_topic(
    topology: Topology, node: str, endpoint: str, message_class: MessageClass
) -> TopicSpec:
    """Return the topic of one endpoint."""
    name = TopicNames(topology.prefix).endpoint(node, endpoint)
    settings = {"cleanup.policy": "delete", **_kept(message_class), **_CLIENT_TIME}
    return _spec(topology, name, topology.nodes[node].partitions, settings)


def create_each(admin: Admin, specs: Sequence[TopicSpec]) -> Mapping[str, str]:
    """Create topics that do not exist yet, whichever of them the brokers refuse.

    Returns:
        Those that were refused, with the brokers' words.

    Raises:
        TransportUnavailableError: The brokers do not answer.
    """
    try:
        admin.create(specs)
    except TransportDeniedError as error:
        if len(specs) > 1:  # who of them it is shows one by one
            return {name: why for one in specs for name, why in create_each(admin, [one]).items()}
        refused = {specs[0].name: str(error)}
    else:
        return {}
    log.error("topic.refused", topic=specs[0].name, fault=refused[specs[0].name])
    return refused


def make_node_topics(admin: Admin, topology: Topology, node: str) -> None:
    """Make what a node owns, but its endpoints; what it can do without may be refused.

    That is what one link, its own publishers or subscribers, the tree layer or people need: it is
    asked for again while the node runs.

    Raises:
        TransportDeniedError: The brokers refuse a topic without which the node serves nobody.
        TransportUnavailableError: They do not answer.
    """
    names = TopicNames(topology.prefix)
    vital = (
        *(names.control(node), names.learned(node), names.progress(node), names.ledger(node)),
        *(names.dead_letters(node), names.lanes(node), names.config()),
    )
    refused = create_each(admin, node_topics(topology, node))
    for topic in vital:
        if topic in refused:
            raise TransportDeniedError(refused[topic], topics=[topic])


def set_to_keep(admin: Admin, specs: Sequence[TopicSpec]) -> Mapping[str, str]:
    """Give topics that were made otherwise the settings that promises hang on.

    A client may have made an endpoint's topic by reading it, or it was made for direct messages,
    of which Kafka keeps as much as it was told: unread guaranteed ones would be deleted there, and
    nobody would notice. What keeps more than asked for stays: it may hold what is not read yet.

    Returns:
        Topics that could not be set, with the brokers' words.

    Raises:
        TransportError: The brokers do not answer.
    """
    found = admin.settings([spec.name for spec in specs])
    refused: dict[str, str] = {}
    for spec in specs:
        known = found.get(spec.name, {})
        wanted = {
            key: value
            for key, value in spec.settings.items()
            if known.get(key) != value and not _keeps_more(key, value, known.get(key, ""))
        }
        if spec.name in found and wanted:
            try:
                admin.change(spec.name, wanted)
            except TransportDeniedError as error:
                refused[spec.name] = str(error)
    return refused


def set_data_topics(admin: Admin, topology: Topology, node: str) -> None:
    """Have ingresses and outboxes that somebody else made keep and take all that they must.

    One that takes less than the largest message would refuse some that were accepted, and one that
    Kafka deletes from would lose them. What may not be set is logged; `mesh doctor` says the same,
    and what to do. Spec: K5, K6.

    Raises:
        TransportUnavailableError: The brokers do not answer.
    """
    names, neighbours = TopicNames(topology.prefix), topology.neighbours(node)
    keys = {
        name: _PROMISED if one is MessageClass.GUARANTEED else _PROMISED[:1]
        for one in MessageClass
        for name in (
            names.ingress(node, one),
            *(names.outbox(node, other, one) for other in neighbours),
        )
    }
    promised = [
        replace(spec, settings={key: spec.settings[key] for key in keys[spec.name]})
        for spec in node_topics(topology, node)
        if spec.name in keys
    ]
    try:
        refused = set_to_keep(admin, promised)
    except TransportDeniedError as error:
        log.warning("topics.not_compared", fault=str(error))
        return
    for topic, fault in refused.items():
        log.error("topic.unsafe", topic=topic, fault=fault, text="`mesh doctor` tells")


def _keeps_more(key: str, wanted: str, known: str) -> bool:
    """Say whether a setting as it is keeps or takes all that another would."""
    if not known.lstrip("-").isdecimal() or not wanted.lstrip("-").isdecimal():
        return False
    limit = key.startswith("retention.") and known == FOREVER
    return limit or (wanted != FOREVER and int(known) >= int(wanted))


def _kept(message_class: MessageClass) -> Mapping[str, str]:
    return _FOREVER if message_class is MessageClass.GUARANTEED else _BOUNDED


def _spec(topology: Topology, name: str, partitions: int, settings: Mapping[str, str]) -> TopicSpec:
    limit = {"max.message.bytes": str(topology.max_message_bytes + HEADROOM_BYTES)}
    return TopicSpec(name=name, partitions=partitions, settings={**settings, **limit})
