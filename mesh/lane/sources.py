"""What a lane reads, and the topics that this is in. Spec: K3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mesh.core.local_links import LocalLink
from mesh.model.frames import MessageClass, SourcePartition
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.port import TopicInfo, TopicPartition


@dataclass(frozen=True, slots=True)
class Source:
    """A partition that a lane reads: the node's own ingress, or a neighbour's outbox.

    Attributes:
        at: Topic and partition.
        topic_id: The broker's id of the topic.
        message_class: Class of everything in it.
        link: The link it came over; None for the own ingress.
        generation: Of its offsets: it rises with each loss at its end. Spec: K9.
        outboxes: Where copies of it leave, by neighbour, as far as that was asked.
    """

    at: TopicPartition
    topic_id: bytes
    message_class: MessageClass
    link: LocalLink | None
    generation: int = 0
    outboxes: dict[str, TopicPartition] = field(default_factory=dict, compare=False, repr=False)

    @property
    def identity(self) -> SourcePartition:
        """Return the partition by intrinsic identity."""
        return SourcePartition(self.topic_id, self.at.partition)


@dataclass(slots=True)
class SourceTopic:
    """An ingress or outbox topic that a node reads."""

    name: str
    kafka: str
    message_class: MessageClass
    link: LocalLink | None
    info: TopicInfo | None = None


def source_topics(
    topology: Topology, node: str, links: Sequence[LocalLink]
) -> Sequence[SourceTopic]:
    """Return the own ingress, and every outbox that neighbours write for this node."""
    names, nodes = TopicNames(topology.prefix), topology.nodes
    found = []
    for message_class in MessageClass:
        ingress = names.ingress(node, message_class)
        found.append(SourceTopic(ingress, nodes[node].kafka, message_class, None))
        for link in [one for one in links if one.takes]:
            outbox = names.outbox(link.neighbour, node, message_class)
            kafka = nodes[link.neighbour].kafka
            found.append(SourceTopic(outbox, kafka, message_class, link))
    return found
