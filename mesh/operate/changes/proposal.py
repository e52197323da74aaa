"""What a topology would change on a running mesh, and why it may not be put in force.

Spec: DESIGN 3, K27, K28.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from mesh.core.audience import EndpointFilter
from mesh.core.legality import Locate
from mesh.core.live_change_limits import CANNOT_CHANGE, refuse_unchangeable
from mesh.errors import ConfigError, Problem, TransportError
from mesh.model.topology import Topology
from mesh.operate.changes.in_force import TopologyInForce
from mesh.operate.changes.plan import Plan, Topics, compare_topics, make_plan
from mesh.operate.changes.queue_changes import queues_shared_otherwise
from mesh.operate.changes.unread import unread_in
from mesh.transport.node_topics import made_for_other_lanes, node_topics
from mesh.transport.port import KafkaCluster, TopicInfo
from mesh.view.mesh_view import RunningMesh


def topics_of_all(topology: Topology) -> Topics:
    """Return the topics of every node."""
    return {node: node_topics(topology, node) for node in topology.nodes}


def plan_on_mesh(
    mesh: RunningMesh, found: TopologyInForce, after: Topology, locate: Locate
) -> Plan:
    """Return what a proposed topology would change on a running mesh.

    Args:
        mesh: The mesh.
        found: What is in force there.
        after: A legal topology.
        locate: Gives the place of a path below the spec of `after`.

    Raises:
        ConfigError: A running mesh cannot follow it.
    """
    before, view = found.topology, mesh.view
    refuse_unchangeable(before, after, locate)
    _refuse_other_lanes(before, after, mesh.kafka, locate)
    filters = [
        EndpointFilter(node, endpoint, filter_)
        for node, seen in view.nodes.items()
        for endpoint, filter_ in seen.subscriptions
    ]
    endpoints: dict[str, list[str]] = {}
    for one in sorted(filters):
        if one.endpoint not in endpoints.setdefault(one.node, []):
            endpoints[one.node].append(one.endpoint)
    old, new = topics_of_all(before), topics_of_all(after)
    topics = compare_topics(before, after, old, new, endpoints)
    unread = unread_in(mesh, [place.topic for place in topics.deleted])
    subscriptions = {node: seen.subscriptions for node, seen in view.nodes.items()}
    attracting = [
        one for one in filters if not subscriptions[one.node][one.endpoint, one.filter].noexport
    ]
    queues = queues_shared_otherwise(view, before, after)
    return make_plan(found, after, topics, subscriptions=attracting, unread=unread, queues=queues)


def _refuse_other_lanes(
    before: Topology, after: Topology, kafka: Mapping[str, KafkaCluster], locate: Locate
) -> None:
    """Refuse returning nodes with other lanes than the earlier one of their name had. K14.

    Raises:
        ConfigError: Lists all of them.
    """
    problems: list[Problem] = []
    for name, node in after.nodes.items():
        if name in before.nodes or node.kafka not in kafka:
            continue
        topics = [spec.name for spec in node_topics(after, name)]
        found: Mapping[str, TopicInfo] = {}
        with suppress(TransportError):  # it will check for itself when it starts
            found = kafka[node.kafka].admin().describe(topics)
        if (fault := made_for_other_lanes(after, name, found)) is not None:
            where = locate(("nodes", name, "lanes"))
            message = "; ".join(fault)
            problems.append(Problem(code=CANNOT_CHANGE, message=message, where=where))
    if problems:
        raise ConfigError(problems)
