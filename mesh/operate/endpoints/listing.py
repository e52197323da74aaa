"""Every endpoint of a mesh: what it is for, what it holds, and which reader lags most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mesh.core.endpoints import forms_in_force
from mesh.errors import TransportError
from mesh.model.control import EndpointKind
from mesh.model.frames import MessageClass
from mesh.model.topology import Topology
from mesh.operate.endpoints.waiting import Waiting, waiting_behind
from mesh.transport.port import KafkaCluster, TopicPartition
from mesh.view.mesh_view import MeshView, RunningMesh


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointStanding:
    """An endpoint of a node.

    Attributes:
        node, endpoint: Its node, and its name.
        kind, message_class: As its subscriptions define it: the node refuses others.
        filters: Its subscribed filters.
        readers: Number of consumer groups with a position in its topic; None if the Kafka cluster
            does not say.
        slowest: The group for which most is waiting; empty without one.
        waiting: What waits for that group; None without one, or if unknown.
    """

    node: str
    endpoint: str
    kind: EndpointKind
    message_class: MessageClass
    filters: Sequence[str]
    readers: int | None = None
    slowest: str = ""
    waiting: Waiting | None = None


def endpoints_of(mesh: RunningMesh, node: str) -> Sequence[EndpointStanding]:
    """Return the endpoints of a node, by name; those of a node that is unreachable are unknown."""
    known = list(_subscribed(mesh.view, node))
    if not known:
        return ()
    topology, home = mesh.topology, mesh.home_of(node)
    try:
        groups = home.admin().readers(
            [topology.names.endpoint(node, one.endpoint) for one in known]
        )
    except TransportError:
        return known
    return [_read_by(one, home, groups, _places(topology, node, one.endpoint)) for one in known]


def _subscribed(view: MeshView, node: str) -> Iterator[EndpointStanding]:
    filters: dict[str, list[str]] = {}
    for endpoint, filter_ in view.nodes[node].subscriptions:
        filters.setdefault(endpoint, []).append(filter_)
    forms = forms_in_force(view.nodes[node].subscriptions)
    for endpoint, asked in sorted(filters.items()):
        yield EndpointStanding(
            node=node,
            endpoint=endpoint,
            kind=forms[endpoint].kind,
            message_class=forms[endpoint].message_class,
            filters=sorted(asked),
        )


def _read_by(
    one: EndpointStanding,
    kafka: KafkaCluster,
    groups: Mapping[str, Mapping[TopicPartition, int]],
    places: Sequence[TopicPartition],
) -> EndpointStanding:
    """Return an endpoint with its readers: the slowest is the one that has passed least."""
    passed = {
        group: {at: max(0, positions[at]) for at in places if at in positions}
        for group, positions in groups.items()
    }
    readers = {group: positions for group, positions in passed.items() if positions}
    if not readers:
        return replace(one, readers=0)
    slowest = min(sorted(readers), key=lambda group: sum(readers[group].values()))
    try:
        waiting = waiting_behind(kafka, readers[slowest], places)
    except TransportError:
        return replace(one, readers=len(readers), slowest=slowest)
    return replace(one, readers=len(readers), slowest=slowest, waiting=waiting)


def _places(topology: Topology, node: str, endpoint: str) -> Sequence[TopicPartition]:
    topic = topology.names.endpoint(node, endpoint)
    return TopicPartition.all_of(topic, topology.nodes[node].partitions)
