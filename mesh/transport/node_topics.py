"""Which topics a node has, and their settings: by the topology alone. Spec: kafka.md 1, K2, K5, K6.

Those that create them, and those that report missing ones, both use this table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mesh.model.counted import counted
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.port import TopicInfo, TopicSpec

HEADROOM_BYTES = 100_000
"""What topics allow beyond the largest message: frame and delivery headers. Spec: K6."""

FOREVER = "-1"
"""Value of a topic's limits at which Kafka itself deletes nothing."""

CLIENT_TIME = {"message.timestamp.type": "CreateTime"}
"""Records carry the time stamps of their publishers."""

_DIRECT_BYTES = str(256 << 20)
_WEEK_MS = str(7 * 24 * 3600 * 1000)
_FOREVER = {"retention.ms": FOREVER, "retention.bytes": FOREVER}
_BOUNDED = {"retention.ms": FOREVER, "retention.bytes": _DIRECT_BYTES}
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
"""Most of it is heartbeats, of one to two kB a second: a week of them is a GB and more, and a query
for interest at a past moment reads all of it. The compacted topic knows what is older."""

_STANDING = {
    **_COMPACTED,
    "cleanup.policy": "compact,delete",
    "retention.ms": str(24 * 3600 * 1000),
}
"""For records that are repeated from time to time, as long as they hold."""

_PASSING = {
    "cleanup.policy": "delete",
    "retention.ms": "600000",
    "retention.bytes": str(64 << 20),
    "segment.bytes": str(16 << 20),
    **_BROKER_TIME,
}
"""For records that are useful for a moment, and never read again."""


def node_topics(topology: Topology, node: str) -> Sequence[TopicSpec]:
    """Return every topic that a node owns except its endpoints.

    Args:
        topology: The mesh; partitions, limits and settings of topics follow from it.
        node: A node of it.
    """
    names = TopicNames(topology.prefix)
    declared = topology.nodes[node]
    data = declared.partitions
    neighbours = [link.other(node) for link in topology.links_of(node)]
    wanted: list[tuple[str, int, Mapping[str, str]]] = [
        (names.clients(node), 1, _COMPACTED),
        (names.control(node), 1, _COMPACTED),
        (names.control_log(node), 1, _LOGGED_CONTROL),
        (names.progress(node), declared.lane_partitions, _COMPACTED),
        (names.ledger(node), declared.lane_partitions, _LOGGED),
        (names.dead_letters(node), declared.lane_partitions, _LOGGED),
        (names.learned(node), 1, _COMPACTED),
        (names.lanes(node), declared.lanes, _LOGGED),
        (names.config(), 1, _COMPACTED),
        (names.roles(node), 1, _COMPACTED),
        (names.routes(node), 1, _STANDING),
    ]
    for message_class in MessageClass:
        kept = _kept(message_class)
        wanted.append((names.ingress(node, message_class), data, {**kept, **CLIENT_TIME}))
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


def made_for_other_lanes(
    topology: Topology, node: str, found: Mapping[str, TopicInfo]
) -> tuple[str, str] | None:
    """Return why a node cannot have its declared lanes, and the way out, or None.

    Each lane has partitions of its own in these topics, and they stay as they were created: with
    another number a lane would continue where another one was, or start from the beginning, and
    partitions without a lane would be read by nobody. Spec: K2, K14.

    Args:
        topology: Declares the node.
        node: The node.
        found: Which topics there are, by name.
    """
    names, lanes = TopicNames(topology.prefix), topology.nodes[node].lanes
    given, progress = names.lanes(node), names.progress(node)
    other_name = "declare a node of another name"
    is_of_these = progress in found and found[progress].partitions == 2 * lanes
    for name in (progress, given, names.ledger(node), names.dead_letters(node)):
        if name not in found:
            continue
        partitions = found[name].partitions
        made = partitions if name == given else partitions // 2
        if made == lanes or (made > lanes and (name != given or is_of_these)):
            continue  # somebody has added some: they belong to no lane
        what = f"node {node} cannot have {counted(lanes, 'lane')}"
        why = f"{name} has {counted(partitions, 'partition')}"
        if name == given and is_of_these:
            return f"{what}: {why}", f"delete {name}, which holds nothing: the node makes it again"
        delete = "" if name in (given, progress) else f"delete {name} if nobody wants it, "
        way = f"{delete}write `lanes: {made}`, or {other_name}"
        return f"{what}: it was made with {counted(made, 'lane')}, {why}", way
    return None


def app_topic(topology: Topology, node: str, app: str) -> TopicSpec:
    """Return the topic of what one application gets."""
    return _of_applications(topology, TopicNames(topology.prefix).app(node, app))


def _of_applications(topology: Topology, name: str) -> TopicSpec:
    """Return a topic whose records are JSON: base64 makes three bytes four."""
    spec = _spec(topology, name, 1, _PASSING)
    limit = str(topology.max_message_bytes * 4 // 3 + HEADROOM_BYTES)
    return TopicSpec(
        name=name, partitions=1, settings={**spec.settings, "max.message.bytes": limit}
    )


def config_topic(topology: Topology) -> TopicSpec:
    """Return the topic for what operators want, which is in every Kafka cluster."""
    return _spec(topology, TopicNames(topology.prefix).config(), 1, _COMPACTED)


def endpoint_topic(
    topology: Topology, node: str, endpoint: str, message_class: MessageClass
) -> TopicSpec:
    """Return the topic of one endpoint."""
    name = TopicNames(topology.prefix).endpoint(node, endpoint)
    settings = {"cleanup.policy": "delete", **_kept(message_class), **CLIENT_TIME}
    return _spec(topology, name, topology.nodes[node].partitions, settings)


def _kept(message_class: MessageClass) -> Mapping[str, str]:
    return _FOREVER if message_class is MessageClass.GUARANTEED else _BOUNDED


def _spec(topology: Topology, name: str, partitions: int, settings: Mapping[str, str]) -> TopicSpec:
    limit = {"max.message.bytes": str(topology.max_message_bytes + HEADROOM_BYTES)}
    return TopicSpec(name=name, partitions=partitions, settings={**settings, **limit})
