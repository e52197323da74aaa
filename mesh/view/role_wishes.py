"""What applications of a node want of the tree layer, as `mesh.<node>.roles` says. Spec: 13."""

from __future__ import annotations

from dataclasses import dataclass

from mesh.errors import ProtocolError
from mesh.model.tree_apps import LEASE_MS, LeaseSaid, RoleKey, RoleSaid, RoleWish
from mesh.transport.port import KafkaCluster, TopicPartition
from mesh.transport.reading import read_logs
from mesh.wire.tree_apps import decode_roles


@dataclass(frozen=True, slots=True)
class StandingWish:
    """A wish for a role that was not taken back.

    Attributes:
        wish: What is wanted.
        since_ms: When it was written, by the broker's clock.
        lease_ends_ms: Until when its application lives, by the same clock, unless it has said
            anything later elsewhere; None if it has left.
    """

    wish: RoleWish
    since_ms: int
    lease_ends_ms: int | None


def role_wishes(kafka: KafkaCluster, topic: str) -> dict[RoleKey, StandingWish]:
    """Return the wishes that stand on a `roles` topic.

    Raises:
        TransportError: The Kafka cluster does not answer.
    """
    place = TopicPartition(topic, 0)
    wishes: dict[RoleKey, tuple[RoleWish, int]] = {}
    leases: dict[str, int] = {}
    heard: dict[str, int] = {}
    for record in read_logs(kafka, [place], name="roles"):
        try:
            said = decode_roles(record.key(), record.value())
        except ProtocolError:
            continue  # the node itself counts and logs what it cannot read
        at_ms = record.timestamp()[1]
        match said:
            case LeaseSaid(app, None):
                heard.pop(app, None)
                leases.pop(app, None)
            case LeaseSaid(app, lease_ms):
                heard[app], leases[app] = at_ms, lease_ms or LEASE_MS
            case RoleSaid(key, wish):
                wishes.pop(key, None)
                if wish is not None:
                    wishes[key] = (wish, at_ms)
                    heard[key.app] = at_ms  # whatever an application says renews its lease
    ends = {app: at_ms + leases.get(app, LEASE_MS) for app, at_ms in heard.items()}
    return {
        key: StandingWish(wish, since_ms, ends.get(key.app))
        for key, (wish, since_ms) in wishes.items()
    }
