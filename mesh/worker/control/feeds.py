"""Control topics that a worker follows: found, assigned, read to their end, and read again.

A topic that does not exist yet is looked for; one that lost its end, or was recreated, is read from
its beginning. All topics of one Kafka cluster are looked up at once, and beside the loop.
Spec: K16, K21, K23.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from mesh.errors import TransportError
from mesh.model.control import NO_TOPIC
from mesh.model.inputs import Input, NeighbourCaughtUp, NeighbourUnproven
from mesh.transport.partly import answers_so_far
from mesh.transport.port import BEGINNING, Admin, Reader, Record, TopicPartition
from mesh.worker.process.intake import Intake
from mesh.worker.process.questions import Questions

UNREACHABLE_AFTER_MS = 15_000
"""How long a start waits for a neighbour's Kafka cluster before it treats the neighbour as frozen,
and for the rest of a control topic that brings nothing more. K23."""

RETRY_MS = 1_000
"""How often to look for a topic that does not exist yet."""

SOON_RETRY_MS, SOON_MS = 100, 3_000
"""How often, and for how long, to look for the topics of a link that a change has added: both ends
create them at the same moment, and sources hold until each end has read the other's. Spec: K28."""

_Looked = tuple[
    Mapping[TopicPartition, int | None], Mapping[str, bytes], str, Collection[TopicPartition]
]
"""Where logs end, None for what does not exist; ids of topics, and of their Kafka cluster;
partitions about which the brokers said nothing."""

log = structlog.get_logger()


@dataclass(slots=True)
class ControlFeed:
    """One control topic that is followed from its beginning.

    Attributes:
        place: The partition.
        kafka: Its Kafka cluster.
        decode: Yields what a record means.
        caught_up: What to report once it is read to its end; None for nothing.
        reset: What to report when it is read from its beginning again, likewise.
        neighbour: Who writes it; "" for the node itself.
        since_ms: Since when it is followed.
        forget: Called when it is read again: what it said before may have ended unseen.
        topic_id: Id of the topic, as far as that is known.
        is_doubted: Whether to check that it still has that id.
        has_marks: Whether a mark of this very topic was read.
        looked_ms: When its end was last requested; `looked_to` is the answer.
        next: Next offset to take.
        end: Where it ended when it was found.
        assigned: Whether it is being read.
        told: Whether it was read to its end.
        given_up: Whether the worker has stopped waiting for that.
        tried_ms: When it was last looked for.
        reached: How far it was read at the last check, and `moved_ms` since when.
    """

    place: TopicPartition
    kafka: str
    decode: Callable[[Record], Iterator[Input]]
    caught_up: Input | None
    reset: Input | None
    neighbour: str
    since_ms: int
    forget: Callable[[], None] | None = None
    topic_id: bytes = NO_TOPIC
    is_doubted: bool = False
    has_marks: bool = False
    looked_ms: int = -1
    looked_to: int | None = None
    next: int = BEGINNING
    end: int | None = None
    assigned: bool = False
    told: bool = False
    given_up: bool = False
    tried_ms: int = -RETRY_MS
    reached: int | None = None
    moved_ms: int = 0


@dataclass(slots=True)
class Feeds:
    """The control topics of a worker, on the worker's readers.

    Attributes:
        admins, readers: Per Kafka cluster.
        intake: Provides positions: how far the records taken go.
        questions: Asks beside the loop.
        started_ms: When the worker began.
        may_read: Returns whether a topic is known to be readable: its link may be disabled.
        isolated: Neighbours of which nothing is read: an injected fault.
        cluster_ids: Of the Kafka clusters that were looked at, by name.
    """

    admins: Mapping[str, Admin]
    readers: Mapping[str, Reader]
    intake: Intake
    questions: Questions
    started_ms: int
    may_read: Callable[[ControlFeed], bool]
    isolated: Collection[str] = ()
    cluster_ids: dict[str, str] = field(default_factory=dict)
    _feeds: dict[tuple[str, int], ControlFeed] = field(default_factory=dict)

    def add(self, feed: ControlFeed) -> ControlFeed:
        """Follow one more."""
        self._feeds[feed.place.topic, feed.place.partition] = feed
        return feed

    def of(self, topic: str, partition: int = 0) -> ControlFeed | None:
        """Return a topic that is followed, or None."""
        return self._feeds.get((topic, partition))

    def __getitem__(self, topic: str) -> ControlFeed:
        """Return a topic that is followed.

        Raises:
            KeyError: It is not.
        """
        return self._feeds[topic, 0]

    def topic_ids(self) -> Mapping[str, bytes]:
        """Return the ids of the topics being read, by name, as far as they are known."""
        feeds = self._feeds.values()
        return {one.place.topic: one.topic_id for one in feeds if one.topic_id != NO_TOPIC}

    def remove_of(self, neighbours: Collection[str]) -> None:
        """Stop following topics of these neighbours."""
        for feed in list(self._feeds.values()):
            if feed.neighbour in neighbours:
                self.remove(feed)

    def remove(self, feed: ControlFeed) -> None:
        """Stop following one."""
        del self._feeds[feed.place.topic, feed.place.partition]
        self._stop(feed)

    def leave(self, neighbours: Collection[str]) -> None:
        """Read nothing from these neighbours for now."""
        for feed in self._feeds.values():
            if feed.neighbour in neighbours:
                self._stop(feed)

    def reopen(self, neighbour: str) -> None:
        """Read a neighbour's topics from their beginning: tombstones do not last."""
        for feed in self._feeds.values():
            if feed.neighbour == neighbour:
                feed.next, feed.told, feed.given_up = BEGINNING, False, False
                feed.reached = None

    def doubt(self, topic: str) -> None:
        """Check whether a topic is still the one being read."""
        for feed in self._feeds.values():
            feed.is_doubted |= feed.place.topic == topic

    # -- finding --------------------------------------------------------------------------

    def find(self, now_ms: int) -> Iterator[Input]:
        """Look for topics that are not read yet; yield what was found out about them."""
        wanted: dict[str, list[ControlFeed]] = {}
        for feed in self._feeds.values():
            is_known = feed.assigned and not feed.is_doubted
            is_out = is_known or feed.neighbour in self.isolated or not self.may_read(feed)
            if not is_out and now_ms - feed.tried_ms >= self._retry_ms(feed, now_ms):
                wanted.setdefault(feed.kafka, []).append(feed)
        for kafka, feeds in wanted.items():
            places = [feed.place for feed in feeds]
            try:
                looking = partial(self._look, kafka, places)
                found = self.questions.answer(("control", "ends", kafka), looking)
            except TransportError:
                for feed in feeds:
                    feed.tried_ms = now_ms
                    yield from self._give_up(feed, now_ms)
                continue
            if found is None:
                continue
            ends, topic_ids, self.cluster_ids[kafka], unknown = found
            for feed in feeds:
                if feed.place in unknown:
                    feed.tried_ms = now_ms
                    yield from self._give_up(feed, now_ms)
                elif feed.place in ends:
                    feed.tried_ms, feed.is_doubted = now_ms, False
                    yield from self._found(
                        feed, ends[feed.place], topic_ids.get(feed.place.topic, NO_TOPIC)
                    )

    def _retry_ms(self, feed: ControlFeed, now_ms: int) -> int:
        is_brought = feed.since_ms > self.started_ms
        return SOON_RETRY_MS if is_brought and now_ms - feed.since_ms < SOON_MS else RETRY_MS

    def _look(self, kafka: str, places: Sequence[TopicPartition]) -> _Looked:
        """Look where these end; one that brokers say nothing about does not hold up the others."""
        admin = self.admins[kafka]
        topics = list(dict.fromkeys(at.topic for at in places))
        described, are_all = answers_so_far(partial(admin.describe, topics))
        ends, have_all = answers_so_far(partial(admin.ends, places))
        unknown = [
            at
            for at in places
            if at not in ends and not (have_all if at.topic in described else are_all)
        ]
        return (
            {at: ends.get(at) for at in places},
            {name: info.topic_id for name, info in described.items()},
            self.cluster_ids.get(kafka) or admin.cluster_id(),
            unknown,
        )

    def _found(self, feed: ControlFeed, end: int | None, topic_id: bytes) -> Iterator[Input]:
        known, feed.topic_id = feed.topic_id, topic_id or feed.topic_id
        if NO_TOPIC not in (known, topic_id) and known != topic_id:
            yield from self.begin_again(feed)
            self.readers[feed.kafka].renew()
        if feed.assigned:
            return
        if end is None:
            # Reachable but absent is proven empty; what it offers later arrives as additions.
            if not feed.told:
                feed.told = True
                if feed.caught_up is not None:
                    yield feed.caught_up
            return
        feed.end = end
        if feed.caught_up is None:
            # If nothing stands there nobody has ever wanted anything; else it counts as a whole,
            # also where there was no such topic until now.
            feed.told = not end
        feed.assigned = True
        if not feed.told:
            self.intake.watch(feed.kafka, feed.place)
        self.readers[feed.kafka].assign({feed.place: feed.next})

    # -- read to their end ----------------------------------------------------------------

    def catch_up(self, now_ms: int) -> Iterator[Input]:
        """Yield what has been read to its end, and neighbours no longer waited for. Spec: K23."""
        for feed in list(self._feeds.values()):
            is_isolated = feed.neighbour in self.isolated
            if (feed.told and not is_isolated) or not self.may_read(feed):
                continue
            if is_isolated:
                yield from self._give_up(feed, now_ms)
                continue
            if not feed.assigned or feed.end is None:
                continue
            position = self.intake.positions.get(feed.place, BEGINNING)
            if position >= feed.end:
                feed.told = True
                self.intake.unwatch(feed.place)
                if feed.caught_up is not None:
                    yield feed.caught_up
            elif position != feed.reached:
                feed.reached, feed.moved_ms = position, now_ms
            elif now_ms - feed.moved_ms >= UNREACHABLE_AFTER_MS:
                # Its brokers went away since it was found, or a transaction that never ends hides
                # the rest. Reading goes on, and its end is reported once it is reached after all.
                yield from self._give_up(feed, now_ms)

    def _give_up(self, feed: ControlFeed, now_ms: int) -> Iterator[Input]:
        """Treat a neighbour as frozen that could not be reached for too long. Spec: K21, K23."""
        overdue = now_ms - feed.since_ms >= UNREACHABLE_AFTER_MS
        waits = not (feed.told or feed.given_up)
        if overdue and waits and isinstance(feed.caught_up, NeighbourCaughtUp):
            feed.given_up = True
            yield NeighbourUnproven(feed.neighbour, is_reached=False)

    def has_read_all(self, topic: str, since_ms: int, now_ms: int) -> bool:
        """Return whether all is read that a topic held at a moment; call again until it is.

        Args:
            topic: Its name.
            since_ms: The moment, or later: an earlier end says nothing about what is awaited.
            now_ms: The present moment.
        """
        feed = self.of(topic)
        if feed is None or not feed.assigned or not feed.told:
            return False
        if feed.looked_ms < since_ms:
            self.questions.forget("all", topic)
            feed.looked_ms, feed.looked_to = now_ms, None
        if feed.looked_to is not None:
            return self.readers[feed.kafka].position(feed.place) >= feed.looked_to
        try:
            asking = partial(_end_of, self.admins[feed.kafka], feed.place)
            found = self.questions.answer(("all", topic), asking)
        except TransportError:
            return False
        if found is not None:
            end, topic_id = found
            if NO_TOPIC not in (topic_id, feed.topic_id) and topic_id != feed.topic_id:
                feed.is_doubted = True  # how far the former topic was read says nothing of this one
            else:
                feed.looked_to = end
        return False  # the intake may not have taken yet what was just fetched

    # -- read again -----------------------------------------------------------------------

    def lost(self, places: Collection[TopicPartition]) -> Sequence[Input]:
        """Read from the beginning what has lost its end, or was recreated. Spec: K16, K21, K23."""
        news: list[Input] = []
        for place in places:
            feed = self.of(place.topic, place.partition)
            if feed is not None and feed.assigned:
                log.warning("control.read_again", topic=place.topic)
                news += self.begin_again(feed)
        return news

    def begin_again(self, feed: ControlFeed) -> Sequence[Input]:
        """Read one from its beginning; return the inputs that follow from that."""
        self._stop(feed)
        if feed.forget is not None:
            feed.forget()
        self.questions.forget("control", "ends", feed.kafka)  # a pending answer may be outdated
        feed.looked_ms, feed.has_marks, feed.reached = -1, False, None
        feed.next, feed.told, feed.given_up, feed.tried_ms = BEGINNING, False, False, -RETRY_MS
        return [] if feed.reset is None else [feed.reset]

    def _stop(self, feed: ControlFeed) -> None:
        if feed.assigned:
            feed.assigned = False
            self.intake.unwatch(feed.place)
            self.readers[feed.kafka].unassign([feed.place])
            self.intake.forget([feed.place])


def _end_of(admin: Admin, place: TopicPartition) -> tuple[int, bytes]:
    """Return where a log ends, and the id of its topic: of that one, or of one that came since."""
    end = admin.ends([place]).get(place, 0)
    found = admin.describe([place.topic]).get(place.topic)
    return end, NO_TOPIC if found is None else found.topic_id
