"""Outboxes of former neighbours: once they are deleted, lanes keep nothing of them. Spec: K12.

Names of nodes come and go, and what is kept of each would stay for ever. Nothing is forgotten by
guess: a Kafka cluster that does not answer, or does not let its topics be seen, says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from mesh.errors import TransportError
from mesh.lane.ended_outboxes import end_outbox
from mesh.model.frames import MessageClass
from mesh.transport.port import TopicPartition
from mesh.worker.lanes.owned import Lanes
from mesh.worker.process.questions import Questions

LOOK_MS = 60_000

log = structlog.get_logger()


@dataclass(slots=True)
class LeftOutboxes:
    """Looks now and then whether outboxes whose links were removed are there still.

    Attributes:
        lanes: What this worker owns.
        questions: What waits for brokers.
        due_ms: When to look next: turns before that need not call it.
    """

    lanes: Lanes
    questions: Questions
    due_ms: int = LOOK_MS
    _asked: dict[str, Sequence[str]] = field(default_factory=dict)

    def look(self, now_ms: int) -> None:
        """Ask the Kafka clusters in which they were, and have what is gone end."""
        if not self._asked:
            self._asked = self._left()
        for kafka, topics in list(self._asked.items()):
            admin = self.lanes.sources.admins[kafka]
            try:
                known = self.questions.answer(("left", kafka), partial(admin.describe, topics))
            except TransportError as error:
                log.info("outboxes.not_ended", fault=str(error))
                del self._asked[kafka]
                continue
            if known is not None:
                del self._asked[kafka]
                self._end(kafka, [one for one in topics if one not in known], now_ms)
        self.due_ms = now_ms if self._asked else now_ms + LOOK_MS

    def _left(self) -> dict[str, Sequence[str]]:
        """Return the topics to be looked for in each Kafka cluster that this worker knows."""
        left: dict[str, dict[str, None]] = {}
        for lane in self.lanes.owned.values():
            for at, kafka in lane.progress.unlinked.items():
                if kafka in self.lanes.sources.admins:
                    topics = at.topic, self._beside(at).topic
                    left.setdefault(kafka, {}).update(dict.fromkeys(topics))
        return {kafka: list(topics) for kafka, topics in left.items()}

    def _end(self, kafka: str, gone: Sequence[str], now_ms: int) -> None:
        for lane in self.lanes.owned.values():
            progress, read = lane.progress, self.lanes.sources.topics
            left = [at for at, known_in in progress.unlinked.items() if known_in == kafka]
            for guaranteed in left:
                both = {guaranteed: None, self._beside(guaranteed): None}
                if any(at.topic not in gone for at in both):
                    continue  # one is found by the other: they end together
                # A link that came back meanwhile reads what is there now.
                for at in [one for one in both if one in progress.topic_ids]:
                    if at.topic not in read:
                        end_outbox(lane, at, now_ms)
                        log.info("outbox.ended", topic=at.topic, partition=at.partition)

    def _beside(self, at: TopicPartition) -> TopicPartition:
        """Return the direct outbox of a link, by its guaranteed one: nothing is said of that."""
        name = self.lanes.names.source_of(at.topic)
        if name is None:
            return at
        topic = self.lanes.names.outbox(name.owner, name.reader, MessageClass.DIRECT)
        return TopicPartition(topic, at.partition)
