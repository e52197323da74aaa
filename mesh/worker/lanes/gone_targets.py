"""What a lane keeps of targets that are no more, and how it ends. Spec: K12.

Positions of a removed link stay, so that it can continue where it ended if it comes back; so does
the end of a hold. Once the topic itself is deleted nothing can continue there: names of nodes and
endpoints come and go, and their keys would stay forever. It ends when the lane is taken; what was
sent over links also while it is owned (`mesh.worker.topics.former_targets`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import structlog

from mesh.errors import TransportDeniedError
from mesh.lane.progress import Progress
from mesh.model.facts import Fact, Held, Sent, target_fact
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.port import KafkaCluster

K = TypeVar("K")

log = structlog.get_logger()


def gone_keys(
    kept: Mapping[bytes, Fact],
    topology: Topology,
    node: str,
    home: KafkaCluster,
    progress: Progress,
) -> Sequence[bytes]:
    """Return the keys of targets that cannot come back, and drop them from the lane's progress.

    Nothing is dropped on a guess: a worker that may not see all of these topics keeps all keys.

    Args:
        kept: What a lane keeps, by key.
        topology: The mesh.
        node: Whose lane.
        home: The node's own Kafka cluster, where all targets are.
        progress: The lane's.

    Raises:
        TransportUnavailableError: The brokers do not answer.
    """
    doubted = without_link(kept, topology, node, progress)
    topics = list(dict.fromkeys(one.at.topic for one in doubted.values()))
    try:
        known = home.admin().describe(topics) if topics else {}
    except TransportDeniedError as error:
        log.info("progress.not_ended", fault=str(error))
        return ()
    gone = {key: one for key, one in doubted.items() if one.at.topic not in known}
    for one in gone.values():
        progress.forget(one)
    if gone:
        log.info("progress.ended", keys=len(gone), topics=len(topics) - len(known))
    return list(gone)


def without_link(
    kept: Mapping[K, Fact], topology: Topology, node: str, progress: Progress
) -> Mapping[K, Held | Sent]:
    """Return what is kept of targets to which no link leads, and of which nothing is held.

    These may be gone; who asks the brokers knows, and nobody else.

    Args:
        kept: What a lane keeps, by any key.
        topology: The mesh.
        node: Whose lane.
        progress: The lane's.
    """
    names = TopicNames(topology.prefix)
    linked = tuple(
        names.outbox(node, other, message_class)
        for other in topology.neighbours(node)
        for message_class in MessageClass
    )
    return {
        key: one
        for key, fact in kept.items()
        if (one := target_fact(fact)) is not None
        and _is_over(one)
        and one.at.topic not in (*linked, *progress.holds)
    }


def _is_over(one: Held | Sent) -> bool:
    return one.is_over if isinstance(one, Held) else one.is_unlinked
