"""What brokers no longer have of what the auditor has not read: deleted, compacted, recreated."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.errors import TransportUnavailableError
from streaming.connectors.source import Ranges
from streaming.job.holes import gaps
from streaming.job.kafka_clusters import AuditedKafkaClusters
from streaming.job.state import State
from streaming.job.unproven_findings import compacted, deleted, recreated, uncrossed
from streaming.tables.rows import MicroBatch, TopicPartition
from streaming.tables.topics import (
    CLIENTS,
    DIRECT,
    ENDPOINT,
    GUARANTEED,
    INGRESS,
    LEDGER,
    OUTBOX,
    TopicPlace,
    place_of,
)

BROKERS_EVERY_S = 60.0
"""How often the auditor asks brokers again what was deleted or recreated, in seconds."""


@dataclass(slots=True)
class Deletions:
    """Asks brokers what is gone, and has nothing judged that rests on it.

    Attributes:
        kafka_clusters: Those that are audited.
        clock: The auditor's seconds, that only rise.
        asked_s: Kafka cluster -> when it was last asked about all its topics.
        named: Kafka clusters of which it is known what their topics are called.
    """

    kafka_clusters: AuditedKafkaClusters
    clock: Callable[[], float]
    asked_s: dict[str, float] = field(default_factory=dict)
    named: dict[str, None] = field(default_factory=dict)

    def ask(
        self,
        state: State,
        kafka: str,
        before: Mapping[TopicPartition, int],
        planned: Collection[TopicPartition],
        late: Collection[TopicPartition],
        *,
        is_lagging: bool,
    ) -> Ranges:
        """Learn the ids of topics, and what was deleted or recreated before it was read.

        Spark skips deleted records without a word, and in a topic that was recreated it goes on
        where it was in the former one. Who wrote them and who got them cannot be judged.
        Spec: K4, K5.

        Args:
            state: The audits.
            kafka: The Kafka cluster.
            before: Where the batch began.
            planned: What it reads, or has read: brokers are asked of no partition that is gone, for
                of one that a topic has lost they say nothing until the client gives up.
            late: Of which it does not hold the first record.
            is_lagging: Whether it was a full batch: its logs may end behind it.

        Returns:
            What Spark will not read and is to be read all the same.
        """
        self._name_topics(state)
        asked_s = self.asked_s.get(kafka)
        is_due = asked_s is None or not 0 <= self.clock() - asked_s < BROKERS_EVERY_S
        if is_due:
            self.asked_s[kafka] = self.clock()
        here = [
            one for one in sorted(state.read) if self.kafka_clusters.home_of(one.topic) == kafka
        ]
        there = [place for place in here if place in planned]
        gone = [place for place in here if place not in planned]
        unread = self._look_for_recreated(state, kafka, there, gone, before, is_due=is_due)
        if gone:
            state.forget_gone(gone, there)
        places = [
            place
            for place in there
            if (is_due or is_lagging or place not in before or place in late)
            and _is_missed(place_of(self.kafka_clusters.prefix, place.topic))
        ]
        for place, beginning in self.kafka_clusters.beginnings(places).items() if places else ():
            first = before.get(place, 0)
            if beginning > first:
                self._lose(state, kafka, place, first, beginning - 1)
        return unread

    def _name_topics(self, state: State) -> None:
        """Learn the ids of the topics of all Kafka clusters before a batch of one is taken.

        Batches are taken one after another, and what the first holds of sources elsewhere would
        come from nowhere: of so much there is no room.
        """
        for kafka in filter(self.kafka_clusters.is_needed, self.kafka_clusters.answering):
            if kafka in self.named or not self.kafka_clusters.answers(kafka):
                continue
            try:
                ids = self.kafka_clusters.ids_at_home(kafka)
            except TransportUnavailableError:
                self.kafka_clusters.note_silent(kafka)
                continue  # its batch names them
            self.named[kafka] = None
            for topic, id_ in ids.items():
                state.names.tell(topic, id_)

    def _look_for_recreated(
        self,
        state: State,
        kafka: str,
        there: Sequence[TopicPartition],
        gone: Sequence[TopicPartition],
        before: Mapping[TopicPartition, int],
        *,
        is_due: bool,
    ) -> Ranges:
        """Learn the ids of topics; return what is to be read of those that were recreated.

        That are all subscriptions that stand in a topic from its beginning on, for they hold. A
        topic that has lost partitions was recreated, whether its former id is known or not.
        """
        prefix, shorter = self.kafka_clusters.prefix, {place.topic: None for place in gone}
        topics = {
            place.topic: None
            for place in there
            if is_due
            or place.topic not in state.ids
            or place.topic in shorter
            or place not in before  # it may have been gone for a while
            or state.read[place] < before.get(place, 0)  # Spark goes back with the end of a log
        }
        new_ids: dict[str, str] = {}
        for topic, id_ in self.kafka_clusters.ids_of(kafka, topics).items():
            if place_of(prefix, topic).kind in (INGRESS, OUTBOX):
                state.names.tell(topic, id_)
            if topic in shorter or state.ids.get(topic, id_) != id_:
                new_ids[topic] = id_
            state.ids[topic] = id_
        again: dict[TopicPartition, tuple[int, int]] = {}
        for place in [place for place in (*there, *gone) if place.topic in new_ids]:
            unread = min(before.get(place, 0), state.read[place])
            if unread and place_of(prefix, place.topic).kind == CLIENTS:
                again[place], unread = (0, unread), 0
            state.forget_recreated(place, new_ids[place.topic], unread)
            state.register.add(recreated(prefix, place, new_ids[place.topic], unread))
        for place in [place for place in gone if place.topic in new_ids]:
            del state.read[place]
        return again

    def _lose(self, state: State, kafka: str, place: TopicPartition, first: int, last: int) -> None:
        """Have nothing judged that rests on records that were deleted before they were read."""
        topic = place_of(self.kafka_clusters.prefix, place.topic)
        if topic.kind == OUTBOX:
            state.minutes.lose(kafka)
        if topic.kind == LEDGER:
            state.accounts.forget(topic.node)
            state.interest.lanes.lose_cuts(topic.node)
        elif topic.kind == ENDPOINT:
            state.consumed.lose(place, first, last)
            state.interest.changes += 1
        elif topic.kind == OUTBOX and topic.letter == DIRECT:
            state.register.add(uncrossed(self.kafka_clusters.prefix, place, first, last))
        elif topic.letter == GUARANTEED:
            state.register.add(deleted(self.kafka_clusters.prefix, place, first, last))
            if topic.kind == INGRESS:
                state.certifier.blocks.skip(place, last)

    def look_for_compaction(
        self, state: State, kafka: str, rows: MicroBatch, ranges: Ranges
    ) -> None:
        """Judge nothing of an ingress from which compaction may have taken what nobody has read.

        A loss of it would not show: neither side has it. Where no topic is compacted, what is not
        there belonged to transactions of clients.

        Args:
            state: The audits.
            kafka: The Kafka cluster.
            rows: A batch of it.
            ranges: What the batch went over.

        Raises:
            TransportUnavailableError: The Kafka cluster does not say; the batch comes again.
        """
        lacking = gaps(self.kafka_clusters.prefix, rows, ranges)
        if not lacking:
            return
        topics = [*dict.fromkeys(place.topic for place in lacking)]
        suspects = self.kafka_clusters.brokers[kafka].compacted(topics)
        for place, count in lacking.items():
            if place.topic in suspects:
                first, end = ranges[place]
                state.register.add(compacted(place, first, end - 1, count))
                state.certifier.blocks.skip(place, end - 1)

    def bound_consumed(self, state: State) -> None:
        """Learn what had been published when records of endpoints turned out to be deleted."""
        kafka_clusters, prefix = self.kafka_clusters, self.kafka_clusters.prefix
        if not state.consumed.unbounded:
            return

        def is_ingress(topic: str) -> bool:
            place = place_of(prefix, topic)
            return place.kind == INGRESS and place.letter == GUARANTEED

        ends: dict[TopicPartition, int] = {}
        for kafka in filter(kafka_clusters.is_needed, list(kafka_clusters.brokers)):
            if not kafka_clusters.answers(kafka):
                return  # it is asked later: until then nothing of these endpoints is proven
            try:
                ends.update(
                    kafka_clusters.brokers[kafka].ends(kafka_clusters.places(kafka, is_ingress))
                )
            except TransportUnavailableError:
                kafka_clusters.note_silent(kafka)
                return
        promised = {*state.interest.certified()}
        promised |= {one for members in state.interest.shared().values() for one in members}
        for finding in state.consumed.bound(ends, promised):
            state.register.add(finding)
        state.interest.changes += 1


def _is_missed(topic: TopicPlace) -> bool:
    """Return whether it matters if records of a topic were deleted unread."""
    return topic.letter == GUARANTEED or topic.kind in (OUTBOX, LEDGER, ENDPOINT)
