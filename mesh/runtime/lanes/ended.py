"""What a lane keeps of targets that are no more, and how it ends. Spec: K12.

Positions of a removed link stay, so that one that comes back goes on where it ended, and so does
the end of a hold. Once the topic itself is deleted nothing can go on there: names of nodes and of
endpoints come and go, and their keys would stay for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from mesh.errors import TransportDeniedError
from mesh.model.frames import MessageClass, SourcePartition
from mesh.model.state import Progress, ProgressKind
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.runtime.lane.positions import ENDED, Positions
from mesh.runtime.lane.relinking import UNLINKED
from mesh.transport.port import KafkaCluster, TopicPartition

log = structlog.get_logger()


@dataclass(slots=True)
class Ended:
    """Keys of one lane's progress that speak of targets which it writes no more.

    Attributes:
        topology, node: Whose lane.
    """

    topology: Topology
    node: str
    _keys: dict[bytes, Progress] = field(default_factory=dict)

    def see(self, key: bytes, progress: Progress | None) -> None:
        """Take a record of the progress, in order; None is its end."""
        self._keys.pop(key, None)
        if progress is None:
            return
        is_let_go = progress.kind is ProgressKind.HELD and progress.offset == ENDED
        is_unlinked = progress.kind is ProgressKind.SENT and progress.ahead == UNLINKED
        if is_let_go or is_unlinked:
            self._keys[key] = progress

    def gone(self, home: KafkaCluster, positions: Positions) -> Sequence[bytes]:
        """Return the keys of what cannot come back, and have the positions forget it.

        Nothing is forgotten by guess: who may not see all of these topics keeps all their keys.

        Args:
            home: The node's own Kafka cluster, where all targets are.
            positions: Of the lane.

        Raises:
            TransportUnavailableError: The brokers do not answer.
        """
        names = TopicNames(self.topology.prefix)
        linked = tuple(
            names.outbox(self.node, other, message_class)
            for other in self.topology.neighbours(self.node)
            for message_class in MessageClass
        )
        doubted = {
            key: one
            for key, one in self._keys.items()
            if one.topic not in linked and one.topic not in positions.holds
        }
        topics = list(dict.fromkeys(one.topic for one in doubted.values()))
        try:
            known = home.admin().describe(topics) if topics else {}
        except TransportDeniedError as error:
            log.info("progress.not_ended", fault=str(error))
            return ()
        gone = {key: one for key, one in doubted.items() if one.topic not in known}
        for one in gone.values():
            at = TopicPartition(one.topic, one.partition)
            of = SourcePartition(one.topic_id or b"", one.source_partition)
            positions.sent.pop((at, of), None)
            positions.since.pop((at, of), None)
        if gone:
            log.info("progress.ended", keys=len(gone), topics=len(topics) - len(known))
        return list(gone)
