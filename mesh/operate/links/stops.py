"""Sources that stopped because something is lost, and an operator's consent to that. Spec: R6."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mesh.model.control import Stop
from mesh.model.frames import MessageClass
from mesh.view.mesh_view import RunningMesh
from mesh.view.operator_records import write_config
from mesh.wire.control import encode_stop
from mesh.wire.keys import accept_key


@dataclass(frozen=True, slots=True, order=True)
class StoppedSource:
    """A stop, and the node that is stopped there."""

    node: str
    stop: Stop


def stops_on_link(
    mesh: RunningMesh,
    one: str,
    other: str,
    *,
    source: str | None = None,
    partition: int | None = None,
) -> Sequence[StoppedSource]:
    """Return what is stopped on a link, in both directions.

    Args:
        mesh: The mesh.
        one: An end of the link.
        other: Its other end.
        source: Only of what comes from this end.
        partition: Only of this partition of the outboxes.
    """
    found: list[StoppedSource] = []
    for reader, writer in ((one, other), (other, one)):
        outbox = mesh.topology.names.outbox(writer, reader, MessageClass.GUARANTEED)
        found += [
            StoppedSource(reader, stop)
            for place, stop in sorted(mesh.view.nodes[reader].stops.items())
            if place.topic == outbox
            and source in (None, writer)
            and partition in (None, place.partition)
        ]
    return found


def stops_at_ingress(mesh: RunningMesh, node: str) -> Sequence[StoppedSource]:
    """Return what is stopped of what clients publish at a node."""
    ingress = mesh.topology.names.ingress(node, MessageClass.GUARANTEED)
    return [
        StoppedSource(node, stop)
        for place, stop in sorted(mesh.view.nodes[node].stops.items())
        if place.topic == ingress
    ]


def accept(mesh: RunningMesh, stopped: Sequence[StoppedSource]) -> None:
    """Write that these losses are accepted: exactly these, even if they have grown meanwhile.

    Raises:
        TransportError: Kafka did not accept it.
    """
    _write(mesh, stopped, is_open=True)


def withdraw(mesh: RunningMesh, stopped: Sequence[StoppedSource]) -> None:
    """End the consent to these losses.

    Raises:
        TransportError: Kafka did not accept it.
    """
    _write(mesh, stopped, is_open=False)


def _write(mesh: RunningMesh, stopped: Sequence[StoppedSource], *, is_open: bool) -> None:
    for one in stopped:
        key = accept_key(one.node, one.stop.topic, one.stop.partition)
        value = encode_stop(one.stop) if is_open else None
        write_config(mesh.home_of(one.node), mesh.topology.prefix, key, value)


def wait_resumed(
    mesh: RunningMesh, stopped: Sequence[StoppedSource], limit_s: float
) -> Sequence[StoppedSource]:
    """Wait until these read on; return those that do not. The consent ends with the wait."""

    def left() -> Sequence[StoppedSource]:
        return [one for one in stopped if one.stop in mesh.view.nodes[one.node].stops.values()]

    def read_on() -> bool:
        mesh.view.refresh()
        return not left()

    mesh.time.wait_until(read_on, limit_s)
    withdraw(mesh, stopped)
    return left()
