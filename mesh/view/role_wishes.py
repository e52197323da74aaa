"""What applications of a node want of the tree layer, as `mesh.<node>.roles` says. Spec: 13."""

from __future__ import annotations

from mesh.codec.tree_apps import decode_roles
from mesh.errors import ProtocolError
from mesh.model.tree_apps import RoleKey, RoleSaid, RoleWish
from mesh.transport.port import KafkaCluster, TopicPartition
from mesh.transport.reading import read_range


def role_wishes(kafka: KafkaCluster, topic: str) -> dict[RoleKey, RoleWish]:
    """Return the wishes that stand on a `roles` topic.

    Raises:
        TransportError: The Kafka cluster does not answer.
    """
    place = TopicPartition(topic, 0)
    starts, ends = kafka.admin().starts([place]), kafka.admin().stable_ends([place])
    begins = {place: starts[place]} if starts.get(place, 0) < ends.get(place, 0) else {}
    found: dict[RoleKey, RoleWish] = {}
    for record in read_range(kafka, begins, ends, name="roles"):
        try:
            said = decode_roles(record.key(), record.value())
        except ProtocolError:
            continue  # the node itself counts and logs what it cannot read
        if not isinstance(said, RoleSaid):
            continue
        found.pop(said.key, None)
        if said.wish is not None:
            found[said.key] = said.wish
    return found
