"""Links that operators disable: nothing crosses them, guaranteed messages wait. Spec: DMR-10."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mesh.errors import TransportError
from mesh.model.control import Pause
from mesh.model.topology import Topology
from mesh.transport.port import KafkaCluster
from mesh.view.operator_records import write_config
from mesh.wire.control import encode_pause
from mesh.wire.keys import DisableKey, disable_key


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
        why: The operator's reason.
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
            home = topology.home_of(key.node, kafka)
            write_config(home, topology.prefix, disable_key(key), value)
        except TransportError as error:
            failed[key] = str(error)
    return failed


def ends_of(one: str, other: str) -> Sequence[DisableKey]:
    """Return both ends of a link."""
    return [DisableKey(one, other), DisableKey(other, one)]
