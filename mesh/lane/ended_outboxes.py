"""What a lane keeps of an outbox whose link and topic are gone, and how it ends. Spec: K12.

Positions and chains of a removed link stay, so that one that comes back goes on where it ended.
Once the topic itself is deleted nothing can go on there, and what comes under its name is another.
"""

from __future__ import annotations

from dataclasses import replace

from mesh.lane.lane import Lane
from mesh.lane.partly_taken import forget_partly_taken
from mesh.model.control import NO_TOPIC
from mesh.model.facts import Accepted, ErasBegun, Gap, Halted, Held, Sent, SourceAt, Truncations
from mesh.transport.port import TopicPartition


def end_outbox(lane: Lane, at: TopicPartition, now_ms: int) -> None:
    """Have a lane keep nothing more of an outbox partition; record that in the next commit."""
    batch = lane.open(now_ms)
    forget_partly_taken(lane, at, NO_TOPIC, 0, now_ms)
    for of in lane.progress.forget_source(at):
        for chain in (Accepted, Gap):
            batch.forget((chain.word, at.topic, at.partition, of.topic_id, of.partition))
    for kind in (SourceAt, Halted, ErasBegun, Truncations):
        batch.forget((kind.word, at.topic, at.partition))
    lane.direct.forget(at)


def note_place(lane: Lane, at: TopicPartition, kafka: str, cluster_id: str, now_ms: int) -> None:
    """Record in the next commit in which Kafka cluster an outbox is whose link was removed.

    Args:
        lane: Which keeps where it stood there.
        at: The outbox, seen there under the topic id that the position belongs to.
        kafka: Name of the Kafka cluster.
        cluster_id: What it calls itself. Spec: K4.
        now_ms: The present moment.
    """
    left = lane.progress.source_at(at, lane.progress.next[at])
    lane.note(lane.open(now_ms), replace(left, kafka=kafka, cluster_id=cluster_id))


def end_sent(lane: Lane, last: Held | Sent, now_ms: int) -> None:
    """Have a lane keep nothing more of what it sent of a source to an outbox of its node.

    The next commit removes that, and the end of a hold there, of which it remembers nothing else.

    Args:
        lane: Which wrote there; it holds the outbox no longer.
        last: What it keeps of it.
        now_ms: The present moment.
    """
    batch, at, of = lane.open(now_ms), last.at, last.source
    lane.progress.forget(last)
    for chain in (Sent, Held):
        batch.forget((chain.word, at.topic, at.partition, of.topic_id, of.partition))
