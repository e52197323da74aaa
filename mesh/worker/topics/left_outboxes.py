"""Outboxes of former neighbours: once they are deleted, lanes keep nothing of them. Spec: K12.

Names of nodes come and go, and what is kept of each would stay for ever. Nothing is forgotten by
guess: a Kafka cluster that does not answer, or does not let its topics be seen, says nothing; nor
does another one that has come to its name. Where no worker can look, an operator says that exactly
these topics are deleted (`mesh node forget`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from mesh.errors import TransportError
from mesh.lane.ended_outboxes import end_outbox, note_place
from mesh.lane.lane import Lane
from mesh.model.control import Stop
from mesh.model.frames import MessageClass
from mesh.transport.port import Admin, TopicInfo, TopicPartition
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
                found = self.questions.answer(("left", kafka), partial(_look, admin, topics))
            except TransportError as error:
                log.info("outboxes.not_ended", fault=str(error))
                del self._asked[kafka]
                continue
            if found is not None:
                del self._asked[kafka]
                self._end(kafka, topics, *found, now_ms)
        self.due_ms = now_ms if self._asked else now_ms + LOOK_MS

    def relink(self) -> None:
        """Ask anew: an answer from before says nothing of links that come, and go again."""
        self.questions.forget("left")
        self._asked.clear()

    def end_deleted(self, consents: Mapping[tuple[str, int], Stop], now_ms: int) -> None:
        """Have end what operators say is deleted: that very topic, left at that very position."""
        for (topic, partition), stop in consents.items():
            lane = self.lanes.owned.get(partition % self.lanes.count)
            at = TopicPartition(topic, partition)
            if lane is None or at not in lane.progress.unlinked:
                continue
            left = lane.progress.source_at(at, lane.progress.next[at])
            if left.deletion == stop:
                self._end_both(lane, at, now_ms)

    def _left(self) -> dict[str, Sequence[str]]:
        """Return the topics to be looked for in each Kafka cluster that this worker knows."""
        left: dict[str, dict[str, None]] = {}
        for lane in self.lanes.owned.values():
            for at in lane.progress.unlinked:
                if (kafka := self._name_of(lane, at)) in self.lanes.sources.admins:
                    topics = at.topic, self._beside(at).topic
                    left.setdefault(kafka, {}).update(dict.fromkeys(topics))
        return {kafka: list(topics) for kafka, topics in left.items()}

    def _name_of(self, lane: Lane, at: TopicPartition) -> str:
        """Return what the Kafka cluster of an outbox is called by now, as far as that is known."""
        kafka, cluster_id = lane.progress.unlinked[at]
        named = {id_: name for name, id_ in self.lanes.sources.topics.cluster_ids.items()}
        return named.get(cluster_id, kafka)

    def _end(
        self,
        kafka: str,
        asked: Sequence[str],
        known: Mapping[str, TopicInfo],
        cluster_id: str,
        now_ms: int,
    ) -> None:
        """Have end what is gone from the very Kafka cluster in which it was left. Spec: K4."""
        gone = [topic for topic in asked if topic not in known]
        for lane in self.lanes.owned.values():
            progress = lane.progress
            for at in [one for one in progress.unlinked if self._name_of(lane, one) == kafka]:
                found, left_in = known.get(at.topic), progress.unlinked[at].cluster_id
                if left_in == cluster_id:
                    if at.topic in gone and self._beside(at).topic in gone:
                        self._end_both(lane, at, now_ms)  # one is found by the other
                elif not left_in and found and found.topic_id == progress.topic_ids[at]:
                    note_place(lane, at, kafka, cluster_id, now_ms)

    def _end_both(self, lane: Lane, guaranteed: TopicPartition, now_ms: int) -> None:
        """End the outboxes of both classes; a link that came back meanwhile reads what is there."""
        for at in (guaranteed, self._beside(guaranteed)):
            if at in lane.progress.topic_ids and at.topic not in self.lanes.sources.topics:
                end_outbox(lane, at, now_ms)
                log.info("outbox.ended", topic=at.topic, partition=at.partition)

    def _beside(self, at: TopicPartition) -> TopicPartition:
        """Return the direct outbox of a link, by its guaranteed one: nothing is said of that."""
        name = self.lanes.names.source_of(at.topic)
        if name is None:
            return at
        topic = self.lanes.names.outbox(name.owner, name.reader, MessageClass.DIRECT)
        return TopicPartition(topic, at.partition)


def _look(admin: Admin, topics: Sequence[str]) -> tuple[Mapping[str, TopicInfo], str]:
    """Return which of some topics there are in a Kafka cluster, and what it calls itself."""
    return admin.describe(topics), admin.cluster_id()
