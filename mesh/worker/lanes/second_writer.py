"""The second writer of a lane: work beside the lane has transactions of its own. Spec: K16, K20.

One piece of work at a time has it: a repair, a held target, displacing. Opening it fences the
previous holder, and its share of the progress is kept in a partition of its own.
"""

from __future__ import annotations

from mesh.lane.lane import Lane
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.port import KafkaCluster, TopicPartition, Writer


def open_second_writer(kafka: KafkaCluster, names: TopicNames, node: str, number: int) -> Writer:
    """Open the second writer of a lane, by its number.

    Raises:
        TransportError: It cannot be opened now.
    """
    return kafka.writer(f"held-{number}", names.second_writer_transactions(node, number))


def open_second_writer_of(lane: Lane, kafka: KafkaCluster) -> Writer:
    """Open the second writer of a lane that is owned.

    Raises:
        TransportError: It cannot be opened now.
    """
    return open_second_writer(kafka, lane.names, lane.node, lane.number)


def second_partition(topology: Topology, node: str, number: int) -> int:
    """Return the partition of progress, ledger and dead letters that it writes."""
    return topology.nodes[node].lanes + number


def second_partition_of(lane: Lane) -> int:
    """Return the same for a lane that is owned."""
    return second_partition(lane.topology, lane.node, lane.number)


def second_progress(lane: Lane) -> TopicPartition:
    """Return where the second writer keeps its progress."""
    return TopicPartition(lane.names.progress(lane.node), second_partition_of(lane))
