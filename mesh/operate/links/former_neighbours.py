"""What nodes keep of topics that will not come again, and how people have it end. Spec: K12.

Positions and chains of a removed link stay, so that it goes on where it ended if it comes back. A
node forgets them when it sees that the outboxes are deleted; where it cannot see that, people say
so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from mesh.errors import TransportError
from mesh.model.facts import Sent, SourceAt
from mesh.model.frames import MessageClass
from mesh.model.topology import Topology
from mesh.operate.links.stops import StoppedSource, accept, withdraw
from mesh.view.lane_reports import LaneReport, read_report
from mesh.view.mesh_view import RunningMesh


@dataclass(frozen=True, slots=True)
class FormerNeighbour:
    """What a node keeps of a neighbour to which it has no link.

    Attributes:
        node: Whose lanes keep it.
        name: The former neighbour.
        kafka: Name of the Kafka cluster of its outboxes; empty if nobody knew when the link ended.
        cluster_id: Identity of that Kafka cluster, likewise. Spec: K4.
        records: How many records of `progress` are about its outboxes.
        left: Where lanes stood in its guaranteed outbox.
    """

    node: str
    name: str
    kafka: str
    cluster_id: str
    records: int
    left: Sequence[SourceAt]

    def outboxes(self, topology: Topology) -> Sequence[str]:
        """Return the names of its outboxes for the node."""
        return [topology.names.outbox(self.name, self.node, one) for one in MessageClass]


def former_neighbours(
    topology: Topology, report: LaneReport, node: str
) -> Sequence[FormerNeighbour]:
    """Return what a node's lanes keep of nodes to which it has no link, by name.

    Args:
        topology: The mesh.
        report: What the node's lanes record.
        node: The node.
    """
    counts: Counter[str] = Counter()
    left: dict[str, list[SourceAt]] = {}
    for fact in report.of_topics.values():
        if isinstance(fact, Sent):
            continue  # of the node's own outbox: that ends with the topic, in its own Kafka cluster
        source = topology.names.source_of(fact.at.topic)
        if source is None or source.owner == node:
            continue
        counts[source.owner] += 1
        if isinstance(fact, SourceAt) and fact.is_unlinked:
            left.setdefault(source.owner, []).append(fact)
    return [
        FormerNeighbour(
            node,
            name,
            next((one.kafka for one in some if one.kafka), ""),
            _agreed([one.cluster_id for one in some]),
            counts[name],
            some,
        )
        for name, some in sorted(left.items())
        if name not in topology.neighbours(node)
    ]


def _agreed(ids: Sequence[str]) -> str:
    """Return the identity that all lanes know, if they agree."""
    return ids[0] if len(dict.fromkeys(ids)) == 1 else ""


def chains_of_deleted_topics(
    topology: Topology, report: LaneReport, node: str, existing: Collection[bytes]
) -> int:
    """Return how many chains a node keeps, on the links that it has, of topics that are deleted.

    They stay until the topic of the link is deleted: frames of theirs may still be in there.

    Args:
        topology: The mesh.
        report: What the node's lanes record.
        node: The node.
        existing: Topic ids of all topics that nodes may read.
    """
    outboxes = {
        topology.names.outbox(node, other, MessageClass.GUARANTEED)
        for other in topology.neighbours(node)
    }
    return sum(
        fact.at.topic in outboxes and fact.source.topic_id not in existing
        for fact in report.of_topics.values()
        if isinstance(fact, Sent)
    )


def outboxes_left(mesh: RunningMesh, former: FormerNeighbour) -> Mapping[str, str] | None:
    """Return which outboxes of a former neighbour are there still, each with its Kafka cluster.

    That they are gone shows only in the Kafka cluster in which they were: another one may have come
    to its name, and it to another name.

    Returns:
        The name of a Kafka cluster by topic; None if it cannot be seen whether there are any.
    """
    kafka, topics = mesh.kafka, former.outboxes(mesh.topology)
    can_tell = False
    left: dict[str, str] = {}
    for name in sorted(kafka, key=lambda one: one != former.kafka):
        try:
            is_it = kafka[name].admin().cluster_id() == former.cluster_id
            if is_it or name == former.kafka:
                left |= dict.fromkeys(kafka[name].admin().describe(topics), name)
        except TransportError:
            continue
        if is_it:
            can_tell = True
            break
    return left if left or can_tell else None


def confirm_deleted(mesh: RunningMesh, former: FormerNeighbour, limit_s: float) -> bool:
    """Tell a node that exactly these outboxes are deleted; return whether it has forgotten them.

    Outboxes that are created under their names later have other topic ids. The consent ends with
    the wait.

    Raises:
        TransportError: The node's Kafka cluster does not answer.
    """
    said = [StoppedSource(former.node, one.deletion) for one in former.left]
    accept(mesh, said)

    def is_forgotten() -> bool:
        report = read_report(mesh.topology, mesh.kafka, former.node)
        found = former_neighbours(mesh.topology, report, former.node)
        return all(one.name != former.name for one in found)

    try:
        return mesh.time.wait_until(is_forgotten, limit_s)
    finally:
        withdraw(mesh, said)
