"""What the principal of each node must be allowed to do in Kafka, and nothing else.

A node writes only to its own Kafka cluster; of a neighbour it reads the control topic and what
the neighbour writes for it. Spec: DESIGN 4.1, K1, K15, K16.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology


class Resource(StrEnum):
    """What a right applies to, in the words of Kafka's tools."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"


class Operation(StrEnum):
    """What a right allows; describing is implied."""

    READ = "READ"
    WRITE = "WRITE"


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One right of a node's principal.

    Attributes:
        node: The node whose principal needs it.
        kafka: Kafka cluster on which it is granted.
        operation: The operation it allows.
        resource: The kind of resource.
        name: Name, or prefix of names.
        is_prefix: Whether the name is a prefix.
    """

    node: str
    kafka: str
    operation: Operation
    resource: Resource
    name: str
    is_prefix: bool = False


def rights_of(topology: Topology, node: str) -> Iterator[Right]:
    """Yield every right that a node needs."""
    names = TopicNames(topology.prefix)
    own = topology.nodes[node].kafka
    topics = names.of_node(node)
    for operation in Operation:
        yield Right(node, own, operation, Resource.TOPIC, topics, is_prefix=True)
    yield Right(node, own, Operation.READ, Resource.TOPIC, names.config())
    yield Right(node, own, Operation.READ, Resource.GROUP, names.lanes_group(node))
    queues = names.endpoint(node, "")
    yield Right(node, own, Operation.READ, Resource.GROUP, queues, is_prefix=True)
    yield Right(node, own, Operation.WRITE, Resource.TRANSACTIONAL_ID, topics, is_prefix=True)
    for neighbour in topology.neighbours(node):
        there = topology.nodes[neighbour].kafka
        for topic in topics_read_of(topology, node, neighbour):
            yield Right(node, there, Operation.READ, Resource.TOPIC, topic)


def topics_read_of(topology: Topology, reader: str, writer: str) -> Sequence[str]:
    """Return the topics of a neighbour that a node reads; over a join only one end reads."""
    names = TopicNames(topology.prefix)
    topics = [names.control(writer), names.to_control(writer, reader)]
    topics.append(names.to_trees(writer, reader))
    if topology.sends(writer, reader):
        topics += [names.outbox(writer, reader, message_class) for message_class in MessageClass]
    return topics


@dataclass(frozen=True, slots=True, kw_only=True)
class RightsChange:
    """Rights to grant before a change, and to revoke after it; sorted."""

    needed: Sequence[Right]
    unneeded: Sequence[Right]


def compare_rights(before: Topology, after: Topology) -> RightsChange:
    """Return the rights that nodes newly need, or no longer need."""
    old, new = _all_rights(before), _all_rights(after)
    return RightsChange(
        needed=sorted(right for right in new if right not in old),
        unneeded=sorted(right for right in old if right not in new),
    )


def _all_rights(topology: Topology) -> Mapping[Right, None]:
    return {right: None for node in topology.nodes for right in rights_of(topology, node)}
