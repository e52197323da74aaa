"""Links that operators disable: nothing crosses them, guaranteed messages wait. Spec: DMR-10."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mesh.codec.control import encode_pause
from mesh.codec.keys import DisableKey, disable_key
from mesh.errors import TransportError
from mesh.model.control import DISABLED, Pause
from mesh.model.topology import Topology
from mesh.transport.port import KafkaCluster
from mesh.view.mesh_view import MeshView
from mesh.view.node_view import NodeView
from mesh.view.operator_records import write_operator_record


def write_disabled(
    topology: Topology,
    kafka: Mapping[str, KafkaCluster],
    keys: Sequence[DisableKey],
    why: Pause | None,
    unreachable: Mapping[str, str],
) -> Mapping[DisableKey, str]:
    """Have the ends of links disable them, or with None enable them; each on its own Kafka cluster.

    Args:
        topology: The mesh.
        kafka: Clients of its Kafka clusters.
        keys: The ends.
        why: What the operator says.
        unreachable: Kafka clusters that are known not to answer, with the reason.

    Returns:
        Ends that could not be notified, with the reason; the others were.
    """
    value = None if why is None else encode_pause(why)
    failed: dict[DisableKey, str] = {}
    for key in keys:
        cluster = topology.nodes[key.node].kafka
        if cluster in unreachable:
            failed[key] = unreachable[cluster]
            continue
        try:
            write_operator_record(topology, kafka, key.node, disable_key(key), value)
        except TransportError as error:
            failed[key] = str(error)
    return failed


def ends_of(one: str, other: str) -> Sequence[DisableKey]:
    """Return both ends of a link."""
    return [DisableKey(one, other), DisableKey(other, one)]


def says_disabled(seen: NodeView, neighbour: str) -> bool:
    """Say whether a node itself says that its link to a neighbour is disabled; it may be full too.

    Until it says so its workers may still read, and after it says otherwise they may not yet.
    """
    links = seen.heartbeat.links if seen.heartbeat is not None else ()
    return any(
        link.neighbour == neighbour and DISABLED in (link.state, *link.reason.split("; "))
        for link in links
    )


def is_to_be_disabled(view: MeshView, one: str, other: str) -> bool:
    """Say whether operators want a link to be disabled, at one of its ends or both."""
    return other in view.nodes[one].disabled or one in view.nodes[other].disabled
