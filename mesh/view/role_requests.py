"""What applications of a node want of the tree layer, according to `mesh.<node>.roles`.

Spec: tree_layer 13.
"""

from __future__ import annotations

from dataclasses import dataclass

from mesh.errors import ProtocolError
from mesh.model.tree_apps import LEASE_MS, LeaseSaid, RoleKey, RoleRequest, RoleSaid
from mesh.transport.port import KafkaCluster, TopicPartition
from mesh.transport.reading import read_logs
from mesh.wire.tree_apps import decode_roles


@dataclass(frozen=True, slots=True)
class StandingRequest:
    """A request for a role that has not been withdrawn.

    Attributes:
        request: What is wanted.
        since_ms: When it was written, by the broker's clock.
        lease_ends_ms: Until when its application lives, by the same clock, unless it has said
            anything later elsewhere; None if it has left.
    """

    request: RoleRequest
    since_ms: int
    lease_ends_ms: int | None


def role_requests(
    kafka: KafkaCluster, topic: str, at_ms: int | None = None
) -> dict[RoleKey, StandingRequest]:
    """Return the requests that stand on a `roles` topic, or stood at a moment gone by.

    The topic is compacted: of what was taken back or renewed since then it may hold nothing, so
    that a request may be lacking, and a lease look shorter than it was. What is returned did stand.

    Args:
        kafka: Its Kafka cluster.
        topic: Of a node.
        at_ms: The moment, by the broker's clock; None is now.

    Raises:
        TransportError: The Kafka cluster does not answer.
    """
    place = TopicPartition(topic, 0)
    requests: dict[RoleKey, tuple[RoleRequest, int]] = {}
    leases: dict[str, int] = {}
    heard: dict[str, int] = {}
    for record in read_logs(kafka, [place], name="roles"):
        try:
            said = decode_roles(record.key(), record.value())
        except ProtocolError:
            continue  # the node itself counts and logs what it cannot read
        said_ms = record.timestamp()[1]
        if at_ms is not None and said_ms > at_ms:
            continue
        match said:
            case LeaseSaid(app, None):
                heard.pop(app, None)
                leases.pop(app, None)
            case LeaseSaid(app, lease_ms):
                heard[app], leases[app] = said_ms, lease_ms or LEASE_MS
            case RoleSaid(key, request):
                requests.pop(key, None)
                if request is not None:
                    requests[key] = (request, said_ms)
                    heard[key.app] = said_ms  # whatever an application says renews its lease
    ends = {app: said_ms + leases.get(app, LEASE_MS) for app, said_ms in heard.items()}
    return {
        key: StandingRequest(request, since_ms, ends.get(key.app))
        for key, (request, since_ms) in requests.items()
    }
