"""Sources that stopped because something is lost, and an operator's consent to that. Spec: R6."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mesh.model.control import Stop
from mesh.model.frames import MessageClass
from mesh.model.topology import Topology
from mesh.transport.port import KafkaCluster
from mesh.view.mesh_view import MeshView
from mesh.view.operator_records import write_operator_record
from mesh.wire.control import encode_stop
from mesh.wire.keys import accept_key

_LOOK_S = 0.2


@dataclass(frozen=True, slots=True, order=True)
class StoppedSource:
    """A stop, and the node that is stopped there."""

    node: str
    stop: Stop


def stops_on_link(
    topology: Topology,
    view: MeshView,
    one: str,
    other: str,
    *,
    source: str | None = None,
    partition: int | None = None,
) -> Sequence[StoppedSource]:
    """Return what is stopped on a link, in both directions.

    Args:
        topology: The mesh.
        view: What nodes say.
        one: An end of the link.
        other: Its other end.
        source: Only of what comes from this end.
        partition: Only of this partition of the outboxes.
    """
    found: list[StoppedSource] = []
    for reader, writer in ((one, other), (other, one)):
        outbox = topology.names.outbox(writer, reader, MessageClass.GUARANTEED)
        found += [
            StoppedSource(reader, stop)
            for place, stop in sorted(view.nodes[reader].stops.items())
            if place.topic == outbox
            and source in (None, writer)
            and partition in (None, place.partition)
        ]
    return found


def stops_at_ingress(topology: Topology, view: MeshView, node: str) -> Sequence[StoppedSource]:
    """Return what is stopped of what clients publish at a node."""
    ingress = topology.names.ingress(node, MessageClass.GUARANTEED)
    return [
        StoppedSource(node, stop)
        for place, stop in sorted(view.nodes[node].stops.items())
        if place.topic == ingress
    ]


def accept(
    topology: Topology, kafka: Mapping[str, KafkaCluster], stopped: Sequence[StoppedSource]
) -> None:
    """Write that these losses are accepted: exactly these, even if they have grown meanwhile.

    Raises:
        TransportError: Kafka did not accept it.
    """
    _write(topology, kafka, stopped, is_open=True)


def withdraw(
    topology: Topology, kafka: Mapping[str, KafkaCluster], stopped: Sequence[StoppedSource]
) -> None:
    """End the consent to these losses.

    Raises:
        TransportError: Kafka did not accept it.
    """
    _write(topology, kafka, stopped, is_open=False)


def _write(
    topology: Topology,
    kafka: Mapping[str, KafkaCluster],
    stopped: Sequence[StoppedSource],
    *,
    is_open: bool,
) -> None:
    for one in stopped:
        key = accept_key(one.node, one.stop.topic, one.stop.partition)
        write_operator_record(
            topology, kafka, one.node, key, encode_stop(one.stop) if is_open else None
        )


def wait_resumed(
    topology: Topology,
    kafka: Mapping[str, KafkaCluster],
    view: MeshView,
    stopped: Sequence[StoppedSource],
    *,
    now_ms: Callable[[], int],
    pause: Callable[[float], None],
    limit_s: float,
) -> Sequence[StoppedSource]:
    """Wait until these read on; return those that do not. The consent ends with the wait."""
    deadline = now_ms() + int(limit_s * 1000)
    while True:
        view.refresh()
        left = [one for one in stopped if one.stop in view.nodes[one.node].stops.values()]
        if not left or now_ms() >= deadline:
            withdraw(topology, kafka, stopped)
            return left
        pause(_LOOK_S)
