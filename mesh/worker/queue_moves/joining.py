"""A mover joins a queue's group, once no predecessor can write any more. Spec: R3, K16."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from mesh.core.moving import MEMBER
from mesh.lane.lane import Lane
from mesh.model.facts import Sent
from mesh.transport.port import Consumer, KafkaCluster, Record, TopicPartition, Writer
from mesh.worker.lanes.second_writer import open_second_writer_of, second_progress
from mesh.worker.process.errands import Steps
from mesh.worker.process.recall import Recall, read_progress
from mesh.worker.queue_moves.mover import Mover
from mesh.worker.queue_moves.moving import ChainEnds

log = structlog.get_logger()


@dataclass(slots=True)
class OpenedMover:
    """The resources of a mover; empty if the queue has no topic yet.

    Attributes:
        topic_id: Of the endpoint's topic.
        consumer: A member of its group.
        writer: Writes its transactions.
        sent: The last positions that movers of this lane sent from the topic, over each link.
    """

    topic_id: bytes = b""
    consumer: Consumer | None = None
    writer: Writer | None = None
    sent: Sequence[Sent] = ()

    def begin(self, lane: Lane, queue: str) -> Mover | None:
        """Return the mover, or None if the queue has no topic."""
        if self.consumer is None or self.writer is None:
            return None
        sent = _on_links_of_now(lane, self.sent)
        lane.hear_movers(sent)
        log.info("queue.moving", queue=queue, lane=lane.number)
        return Mover(lane, queue, self.consumer, self.writer, self.topic_id, sent)

    def close(self) -> None:
        """Leave the group: the mover is not needed any more."""
        if self.consumer is not None:
            self.consumer.close()
        if self.writer is not None:
            self.writer.close()


def open_mover(home: KafkaCluster, recall: Recall, lane: Lane, queue: str) -> Steps[OpenedMover]:
    """Join a queue's group, step by step.

    The lane's second writer is opened once before the progress is read: otherwise a transaction
    that a predecessor left open there would never end. After it and the mover's own writer are
    open, nothing that is read can change any more. Spec: R3, K16.

    Raises:
        TransportError: That is not possible now.
    """
    names, node, number = lane.names, lane.node, lane.number
    topic = names.endpoint(node, queue)
    fence = partial(open_second_writer_of, lane, home)
    mover = f"moved-{number}", names.mover_transactions(node, number, queue)
    return _open(home, recall, topic, second_progress(lane), fence, mover)


def _open(
    home: KafkaCluster,
    recall: Recall,
    topic: str,
    progress: TopicPartition,
    fence: Callable[[], Writer],
    mover: tuple[str, str],
) -> Steps[OpenedMover]:
    yield
    info = home.admin().describe([topic]).get(topic)
    if info is None:
        return OpenedMover()
    fence().close()
    yield
    writer = home.writer(*mover, tells=True)
    try:
        yield
        sent = _sent_before(recall.records(progress), info.topic_id)
        consumer = home.consumer(MEMBER, topic, topic)
    except BaseException:
        writer.close()
        raise
    return OpenedMover(info.topic_id, consumer, writer, sent)


def _sent_before(records: Sequence[Record], topic_id: bytes) -> Sequence[Sent]:
    """Return what movers of a lane have sent from a topic so far, by its progress."""
    facts = read_progress(records).facts.values()
    return [one for one in facts if isinstance(one, Sent) and one.source.topic_id == topic_id]


def _on_links_of_now(lane: Lane, sent: Sequence[Sent]) -> ChainEnds:
    """Return how far the chains over the existing links have come.

    Over a link that a change has since recreated the chain starts over: its reader may be another
    node of the same name that has read nothing, and would request what was moved to its
    predecessor. Spec: K11, K28.
    """
    numbers = lane.ages.numbers
    return {
        (one.at, one.source): one.last for one in sent if one.link == numbers.get(one.at.topic, 0)
    }
