"""What a lane keeps of an outbox whose link and topic are gone, and how it ends. Spec: K12.

Positions and chains of a removed link stay, so that one that comes back goes on where it ended.
Once the topic itself is deleted nothing can go on there, and what comes under its name is another.
"""

from __future__ import annotations

from mesh.lane.lane import Lane
from mesh.lane.partly_taken import forget_partly_taken
from mesh.model.control import NO_TOPIC
from mesh.model.facts import Accepted, ErasBegun, Gap, Halted, SourceAt, Truncations
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
