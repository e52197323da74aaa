"""Topics of gone applications with roles: nodes create them, and have no right to delete.

An application is gone when `roles` has neither a lease nor a request of it, and its topic is empty:
its records stay there for ten minutes, including its end. If it comes back its node recreates the
topic. Spec: kafka.md 1; tree_layer 13.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mesh.errors import ProtocolError
from mesh.model.topics import TopicNames
from mesh.model.tree_apps import LeaseSaid, RoleKey, RoleSaid
from mesh.transport.port import KafkaCluster, TopicPartition
from mesh.transport.reading import read_logs
from mesh.wire.tree_apps import decode_roles


@dataclass(frozen=True, slots=True)
class GoneApplication:
    """A gone application whose topic is left.

    Attributes:
        node, app: Its node, and its name.
        topic: The topic that is left.
    """

    node: str
    app: str
    topic: str


def gone_applications(
    names: TopicNames, node: str, kafka: KafkaCluster
) -> Sequence[GoneApplication]:
    """Return the applications of a node that are gone and have a topic, by name.

    Raises:
        TransportError: The Kafka cluster does not answer.
    """
    prefix = names.app(node, "")
    admin = kafka.admin()
    topics = {TopicPartition(topic, 0): topic for topic in sorted(admin.named(prefix))}
    if not topics:
        return []
    starts, ends = admin.starts(list(topics)), admin.ends(list(topics))
    empty = [at for at in topics if at in starts and starts[at] == ends.get(at)]
    standing = _standing(names.roles(node), kafka)
    found = [(names.app_of(node, at.topic), at.topic) for at in empty]
    return [GoneApplication(node, *one) for one in found if one[0] and one[0] not in standing]


def _standing(topic: str, kafka: KafkaCluster) -> Mapping[str, None]:
    """Return the applications that still have records on `roles`: a node removes them itself."""
    standing: dict[RoleKey | str, str] = {}
    for record in read_logs(kafka, [TopicPartition(topic, 0)], name="roles"):
        try:
            said = decode_roles(record.key(), record.value())
        except ProtocolError:
            continue  # the node itself counts and logs what is unreadable
        match said:
            case LeaseSaid(app, lease_ms):
                key: RoleKey | str = app
                is_there = lease_ms is not None
            case RoleSaid(key, request):
                app, is_there = key.app, request is not None
        if is_there:
            standing[key] = app
        else:
            standing.pop(key, None)
    return dict.fromkeys(standing.values())
