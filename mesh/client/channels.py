"""A channel read by a consumer group, which keeps its position. Spec: K8.

Several readers of one group share the partitions of the endpoint's topic. A message is done when
the next one is requested, or by `commit`; what a loop was left with by an exception or `break` is
handed out again, as is whatever was not saved after a crash, or a read interrupted by Ctrl-C.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from mesh.client.awaited import APART_MS, READ_S, AwaitedTopic, has_rewound
from mesh.client.outbound import check_count, check_name, check_text
from mesh.core.redelivery import Share
from mesh.errors import ClosedError, SubjectError, TransportMovedError
from mesh.model.topology import Topology
from mesh.transport.port import (
    Consumer,
    KafkaCluster,
    Passed,
    Record,
    Skipped,
    TopicPartition,
    place_of,
)
from mesh.view.messages import ReceivedMessage, Sifter

FETCHED = 100
"""Records that an iterator fetches at once; those waiting here are not done."""

COMMIT_MS = 1_000
"""How often an iterator saves its position, between two messages: at most this much is read again
after a crash."""


class ChannelReader(Sifter):
    """One member of a group that reads a channel; an iterator without end.

    One thread uses it; another one may close it.

    Attributes:
        skipped: What was deleted before the group had read it, as of the messages read so far,
            oldest first; each is also a warning of the logger `mesh.kafka`. Reading continues with
            the oldest message that still exists.

    Args:
        kafka: Kafka cluster of the node.
        topology: The mesh.
        node: The node.
        endpoint: Name of the endpoint.
        group: The consumer group, as Kafka knows it.
        now_ms: Monotonic clock.
        pause: Lets time pass while nothing is there yet, in seconds.

    Raises:
        SubjectError: The endpoint's name is not valid, or the group has none.
    """

    def __init__(
        self,
        kafka: KafkaCluster,
        topology: Topology,
        node: str,
        endpoint: str,
        group: str,
        *,
        now_ms: Callable[[], int],
        pause: Callable[[float], None],
    ) -> None:
        super().__init__()
        check_name("endpoint", endpoint)
        check_text("group", group)
        if not group or not group.isprintable():
            raise SubjectError("a group has a name of printable characters")
        self._kafka, self._group = kafka, group
        self._topic = topology.names.endpoint(node, endpoint)
        self._now_ms = now_ms
        self._reading = AwaitedTopic(kafka, self._topic, self._open, now_ms=now_ms, pause=pause)
        self.skipped: list[Skipped] = []
        self._waiting: deque[Record] = deque()
        self._left: Sequence[ReceivedMessage] = ()  # what a loop has, and has not finished
        self._taken: dict[TopicPartition, Passed] = {}
        self._done: dict[TopicPartition, int] = {}
        self._handed_out: dict[TopicPartition, int] = {}
        self._shares: dict[TopicPartition, Share] = {}
        self._committed_ms = now_ms()

    def read(self, timeout_s: float, most: int = 100) -> Sequence[ReceivedMessage]:
        """Return up to `most` messages as soon as there are some, or none after the timeout.

        `commit` marks them as done.

        Raises:
            TransportError: Kafka does not answer, or refuses.
            ClosedError: This reader is closed, or this process was forked after it was made.
            TypeError, ValueError: `most` is not a whole number from 1.
        """
        check_count("most", most)

        def take(consumer: Consumer, wait_s: float) -> Sequence[ReceivedMessage]:
            self._fetch(consumer, wait_s, most)
            return self._hand_out(most)

        return self._fetched(most) or self._reading.read(timeout_s, take)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Yield messages until `close`; one is done when the next is requested.

        A loop that ends by an exception or `break` has not finished the last one: it comes first in
        the next loop or `read`, unless `commit` has marked it as done.

        If no broker saves the position, it is saved later, but before the next message if the last
        one took so long that a minute of outage would be only a few attempts.

        Raises:
            TransportError: Kafka refuses, or has not saved it for a minute; what was not saved
                comes again after a crash, and another loop over this reader goes on.
        """

        def take(consumer: Consumer, wait_s: float) -> Sequence[ReceivedMessage]:
            self._fetch(consumer, wait_s, FETCHED)
            return self._hand_out(1)

        outages, took_ms = self._reading.outage_limit(), 0
        while not self._reading.is_closed:
            waits = outages.has_just_failed and took_ms >= APART_MS
            found = () if waits else self._fetched(1) or self._reading.read_on(READ_S, take)
            for message in found:
                begun_ms = self._now_ms()
                self._left = (message,)
                yield message
                self._left = ()
                took_ms = self._now_ms() - begun_ms
                self._done[message.place] = message.offset + 1
            if waits or self._now_ms() - self._committed_ms >= COMMIT_MS:
                with outages.outlived(), self._reading.used():
                    self._save()
                    self._stay()

    def commit(self) -> None:
        """Acknowledge everything that was handed out, and save that.

        Raises:
            TransportError: It could not be saved: those messages come again.
            ClosedError: This reader is closed, or was made before a fork: they come again.
        """
        with self._reading.used():
            if self._reading.is_closed:
                raise ClosedError("this reader is closed: what was not saved comes again")
            self._done |= self._handed_out
            self._left = ()
            self._save()

    def _stay(self) -> None:
        """Remain a member however long each message takes, and notice moved partitions.

        At most one record arrives, and one has been taken since: the backlog does not grow.
        """
        if (consumer := self._reading.source) is not None:
            self._fetch(consumer, 0.0, 1)

    def _save(self) -> None:
        self._committed_ms = self._now_ms()
        done = {
            at: Passed(offset, leader_epoch=self._shares[at].leader_epoch)
            for at, offset in self._done.items()
            if at in self._taken
        }
        consumer = self._reading.source
        if consumer is None or not done:
            return
        # Moved: another member has some of them, and continues from what was saved before. The next
        # read shows which ones; those that stay are saved with the next commit.
        with suppress(TransportMovedError):
            consumer.commit(done)
            self._done.clear()

    def _open(self) -> Consumer:
        self._waiting.clear()
        self._left = ()
        self._taken.clear()
        self._done.clear()
        self._handed_out.clear()
        self._shares.clear()
        return self._kafka.consumer("channel", self._group, self._topic)

    def _follow(self, consumer: Consumer, *, is_another: bool) -> None:
        """Forget what went to others, and take up what was assigned.

        What was handed out of a log that has lost its end, and is read again, is remembered.
        """
        owned = consumer.owned()
        for at in [at for at, passed in self._taken.items() if owned.get(at) is not passed]:
            self._waiting = deque(one for one in self._waiting if place_of(one) != at)
            if is_another or at not in owned or not owned[at].is_rewound:
                for known in (self._done, self._handed_out, self._shares):
                    known.pop(at, None)
        for at, passed in owned.items():
            if at not in self._shares:
                self._shares[at] = Share.parse(max(0, passed.offset), "", passed.leader_epoch)
        self._taken = dict(owned)

    def _fetch(self, consumer: Consumer, wait_s: float, most: int) -> None:
        records = consumer.read(wait_s, most)
        self.skipped += consumer.skipped()
        at_once = has_rewound(consumer.owned(), self._taken)
        is_another = bool(records) and self._reading.notice_another(at_once=at_once)
        if is_another:
            consumer.begin_again()
            records = ()
        self._follow(consumer, is_another=is_another)
        self._waiting.extend(records)

    def _fetched(self, most: int) -> Sequence[ReceivedMessage]:
        """Return up to so many messages: what a loop was left with, then those fetched earlier."""
        with self._reading.used():
            if self._reading.is_torn:
                return ()
            left, self._left = self._left, ()
            return [*left, *self._hand_out(most - len(left))]

    def _hand_out(self, most: int) -> Sequence[ReceivedMessage]:
        """Return up to so many fetched messages."""
        found: list[ReceivedMessage] = []
        while self._waiting and len(found) < most:
            record = self._waiting.popleft()
            if self._take_if_new(record):
                found += self.sifted([record])
        return found

    def _take_if_new(self, record: Record) -> bool:
        """Note a record; return whether it was not handed out yet. Spec: R6."""
        at, offset = place_of(record), record.offset()
        share = self._shares[at]
        if share.meet(offset, record.leader_epoch()):
            for reached in (self._done, self._handed_out):
                if at in reached:
                    reached[at] = min(reached[at], offset)
        if share.is_done(offset):
            return False
        self._handed_out[at] = share.base = offset + 1
        return True

    @property
    def is_closed(self) -> bool:
        """Whether the reader is closed."""
        return self._reading.is_closed

    def close(self) -> None:
        """Save what is done, and leave the group; iterating ends.

        Raises:
            TransportError: It could not be saved; the group is left all the same.
        """
        if self._reading.is_closed or self._reading.process.is_forked:
            return
        with self._reading.closing():
            try:
                self._save()
            finally:
                self._waiting.clear()
                self._left = ()
