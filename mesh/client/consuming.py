"""Consume a queue: each message goes to one of its consumers, again until one acknowledges it.

The consumers of a queue at a node are one Kafka consumer group, named like the queue's topic; plain
Kafka consumers of that group are consumers of the queue as well. Acknowledgements and delivery
counts are stored with the group's offsets: see `mesh.core.redelivery`.
Spec: DESIGN 6.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from mesh.client.awaited import READ_S, AwaitedTopic, has_rewound
from mesh.client.outbound import check_count, check_kind, check_name
from mesh.core.redelivery import Share
from mesh.errors import SubjectError, TransportError, TransportMovedError, TransportUnavailableError
from mesh.model.losses import Loss
from mesh.model.names import fold
from mesh.model.state import DeadLetter
from mesh.model.topology import Topology
from mesh.transport.headers import headers_of
from mesh.transport.port import (
    Consumer,
    KafkaCluster,
    Passed,
    Record,
    Skipped,
    TopicPartition,
    TopicSpec,
    Writer,
    place_of,
)
from mesh.view.messages import ReceivedMessage, received, said
from mesh.wire.dead_letters import dead_letter_record

PREFETCH = 500
"""Approximate limit of the records that one consumer has fetched and not handed out."""
MAX_DELIVERIES = "MAX_DELIVERIES"

_LETTERS_KEPT = {"cleanup.policy": "delete", "retention.ms": str(7 * 24 * 3600 * 1000)}


@dataclass(frozen=True, slots=True)
class QueueMessage:
    """A message that was handed out, to be acknowledged or given back.

    Attributes:
        message: What was published.
        deliveries: How often it was handed out at this node, this time included.
    """

    message: ReceivedMessage
    deliveries: int


@dataclass(slots=True)
class _Part:
    """One partition that this consumer has.

    Attributes:
        taken: The group's state when it was taken: another object means another taking.
        share: What is remembered of it.
        records: Records read and not done, by offset.
        fresh: Offsets of those that wait to be handed out here for the first time.
        again: Offsets of those that were given back.
        out: Those that were handed out here, by offset.
        end: First offset that was not read yet.
        is_changed: Whether there is something that the group does not know yet.
    """

    taken: Passed
    share: Share
    records: dict[int, Record] = field(default_factory=dict)
    fresh: deque[int] = field(default_factory=deque)
    again: deque[int] = field(default_factory=deque)
    out: dict[int, QueueMessage] = field(default_factory=dict)
    end: int = 0
    is_changed: bool = False

    @classmethod
    def take(cls, passed: Passed) -> _Part:
        """Begin where the group has committed, or at the beginning, which is then committed."""
        share = Share.parse(max(0, passed.offset), passed.remark, passed.leader_epoch)
        return cls(passed, share, end=share.base, is_changed=passed.is_rewound)

    def read(self, record: Record) -> None:
        """Note a record that was read, and forget the one whose place it has taken."""
        offset = record.offset()
        if self.share.meet(offset, record.leader_epoch()):
            self.records = {at: one for at, one in self.records.items() if at < offset}
            self.out = {at: one for at, one in self.out.items() if at < offset}
            self.fresh = deque(at for at in self.fresh if at < offset)
            self.again = deque(at for at in self.again if at < offset)
            self.end, self.is_changed = offset, True
        self.end = max(self.end, offset + 1)

    def finish(self, offset: int) -> None:
        self.records.pop(offset, None)
        self.out.pop(offset, None)
        self.share.finish(offset, self.records, self.end)
        self.is_changed = True

    def passed(self) -> Passed:
        return Passed(self.share.base, self.share.remark, self.share.leader_epoch)


class QueueConsumer:
    """One consumer of a queue; an iterator without end. One thread uses it; any may close it.

    It may be opened before the queue exists, and must be read from at least every five minutes,
    or the group considers it dead. Messages that were handed out and neither acknowledged nor
    given back are handed out again after it is closed or dies.

    Attributes:
        foreign: Records skipped because the mesh did not write them.
        losses: Losses announced among the messages read so far, oldest first.
        skipped: What was deleted before the queue's consumers were done with it, as of the messages
            read so far, oldest first; each is also a warning of the logger `mesh.kafka`. Reading
            continues with the oldest message that still exists.
        given_up: Messages that became dead letters here.

    Args:
        kafka: Kafka cluster of the node.
        topology: The mesh.
        node: The node.
        queue: Name of the endpoint.
        deliveries_max: How often a message is handed out before it becomes a dead letter; None
            means as declared, or else without limit.
        now_ms: Monotonic clock.
        pause: Lets time pass while nothing is there yet, in seconds.

    Raises:
        SubjectError: The queue's name is not valid, or `deliveries_max` is below 1.
    """

    def __init__(
        self,
        kafka: KafkaCluster,
        topology: Topology,
        node: str,
        queue: str,
        *,
        deliveries_max: int | None,
        now_ms: Callable[[], int],
        pause: Callable[[float], None],
    ) -> None:
        check_name("queue", queue)
        if deliveries_max is not None and (type(deliveries_max) is not int or deliveries_max < 1):
            raise SubjectError(
                f"deliveries_max must be 1 or more, not {deliveries_max!r}; write a whole number"
            )
        self._names = topology.names
        self._kafka = kafka
        self._node, self._queue = node, queue
        self._topic = self._names.endpoint(node, queue)
        self._partitions = topology.nodes[node].partitions
        declared = [one for name, one in topology.queues.items() if fold(name) == fold(queue)]
        self._most = deliveries_max or (declared[0].max_deliveries if declared else None)
        self._reading = AwaitedTopic(kafka, self._topic, self._open, now_ms=now_ms, pause=pause)
        self._writer: Writer | None = None
        self._member = uuid.uuid4().hex
        self._parts: dict[TopicPartition, _Part] = {}
        self._topic_id = b""
        self.foreign = 0
        self.losses: list[Loss] = []
        self.skipped: list[Skipped] = []
        self.given_up = 0

    def read(self, timeout_s: float, most: int = 100) -> Sequence[QueueMessage]:
        """Return up to `most` messages as soon as there are some, or none after the timeout.

        Earlier acknowledgements are committed to the group first.

        Raises:
            TransportError: Kafka does not answer, or refuses; nothing was handed out.
            ClosedError: This consumer is closed, or this process was forked after it was made.
            TypeError, ValueError: `most` is not a whole number from 1.
        """
        check_count("most", most)
        self._reading.check_open()
        return self._read_on(timeout_s, most)

    def _read_on(self, timeout_s: float, most: int) -> Sequence[QueueMessage]:
        def take(consumer: Consumer, wait_s: float) -> Sequence[QueueMessage]:
            self._fetch(consumer, wait_s)
            return self._hand_out(consumer, most)

        return self._reading.read_on(timeout_s, take)

    def __iter__(self) -> Iterator[QueueMessage]:
        """Yield messages until `close`, one at a time: settle each before the next.

        Raises:
            TransportError: Kafka refuses, or has not answered for a minute; another loop goes on.
        """
        outages = self._reading.outage_limit()
        while not self._reading.is_closed:
            found: Sequence[QueueMessage] = ()
            with outages.outlived():
                found = self._read_on(READ_S, 1)
            yield from found

    def ack(self, message: QueueMessage) -> bool:
        """Acknowledge a message; the group learns of it with the next `read`, or by `commit`.

        Returns:
            Whether it was still this consumer's. If not, another consumer gets it as well.
        """
        part, offset = self._part_of(message)
        if part is None:
            return False
        part.finish(offset)
        return True

    def nack(self, message: QueueMessage) -> bool:
        """Give a message back: it is handed out again, here or elsewhere, or becomes a dead letter.

        Returns:
            Whether it was still this consumer's.
        """
        part, offset = self._part_of(message)
        if part is None:
            return False
        del part.out[offset]
        part.again.append(offset)
        return True

    def _part_of(self, message: QueueMessage) -> tuple[_Part | None, int]:
        check_kind("message", message, QueueMessage, "a QueueMessage, as it was handed out")
        offset = message.message.offset
        part = self._parts.get(message.message.place)
        out = part.out.get(offset) if part is not None else None
        # In a recreated topic another message may have this offset.
        is_out = out is not None and out.message.identity == message.message.identity
        return (part if is_out else None), offset

    def commit(self) -> None:
        """Commit to the group what was acknowledged so far.

        Raises:
            TransportError: It could not be saved: those messages are handed out again.
            ClosedError: As for `read`.
        """
        with self._reading.used():
            self._reading.check_open()
            self._tell_all()

    def _tell_all(self) -> None:
        if self._reading.source is not None:
            self._tell(self._reading.source)

    # -- what is read -----------------------------------------------------------------------

    def _open(self) -> Consumer:
        self._parts.clear()
        self._topic_id = self._ask_topic_id()
        return self._kafka.consumer("queue", self._topic, self._topic)

    def _fetch(self, consumer: Consumer, wait_s: float) -> None:
        timeout_s = 0.0 if self._has_waiting() else wait_s
        try:
            self._tell(consumer)
        except TransportMovedError:
            # Others have some of these partitions now. A later read shows which ones; those that
            # stay are not read again, so what is known of them must not be forgotten.
            timeout_s = wait_s
        # Messages that wait here are of no use to other consumers: limit them.
        consumer.pause([at for at, part in self._parts.items() if len(part.fresh) > PREFETCH // 2])
        records = consumer.read(timeout_s, PREFETCH)
        self.skipped += consumer.skipped()
        at_once = has_rewound(consumer.owned(), {at: one.taken for at, one in self._parts.items()})
        if records and self._reading.notice_another(at_once=at_once):
            consumer.begin_again()
            records = ()
        try:
            self._follow(consumer)
        except TransportError:
            self._leave()  # what was just read comes again
            raise
        read: dict[TopicPartition, _Part] = {}
        for record in records:
            at = place_of(record)
            if (part := self._parts.get(at)) is not None:
                self._take(part, record)
                read[at] = part
        for part in read.values():
            part.share.skip(part.records, part.end)

    def _follow(self, consumer: Consumer) -> None:
        """Forget what went to others, and take up what was assigned."""
        owned = consumer.owned()
        gone = [at for at, part in self._parts.items() if owned.get(at) is not part.taken]
        former = {at: self._parts.pop(at) for at in gone}
        if any(at in former and passed.is_rewound for at, passed in owned.items()):
            before, self._topic_id = self._topic_id, self._ask_topic_id()
            if self._topic_id == before:  # it has lost its end: what was done there stays done
                for at in [at for at in former if at in owned and owned[at].is_rewound]:
                    self._parts[at] = replace(former[at], taken=owned[at])
        for at, passed in owned.items():
            if at not in self._parts:
                self._parts[at] = _Part.take(passed)

    def _take(self, part: _Part, record: Record) -> None:
        offset = record.offset()
        part.read(record)
        if part.share.is_done(offset) or offset in part.records:
            return
        part.records[offset] = record
        match said(record):
            case ReceivedMessage():
                part.fresh.append(offset)
            case Loss() as loss:
                self.losses.append(loss)
                part.finish(offset)
            case None:
                self.foreign += 1
                part.finish(offset)

    # -- what is handed out -----------------------------------------------------------------

    def _has_waiting(self) -> bool:
        return any(
            part.again or (part.fresh and part.share.has_room(part.fresh[0]))
            for part in self._parts.values()
        )

    def _hand_out(self, consumer: Consumer, most: int) -> Sequence[QueueMessage]:
        chosen: list[QueueMessage] = []
        spent: list[tuple[TopicPartition, int]] = []
        for at, part in self._parts.items():
            while len(chosen) < most and (offset := _next_of(part)) is not None:
                if self._most is not None and part.share.times(offset) >= self._most:
                    spent.append((at, offset))
                    continue
                times = part.share.hand_out(offset)
                part.is_changed = True
                part.out[offset] = QueueMessage(received(part.records[offset]), times)
                chosen.append(part.out[offset])
        try:
            if spent:
                self._give_up(consumer, spent)
            self._tell(consumer)
        except TransportMovedError:
            self._take_back(chosen)  # the next read shows what is left, and where to continue
            return ()
        except TransportError:
            self._take_back(chosen)  # nobody has seen them, whatever the group recorded
            raise
        return chosen

    def _take_back(self, chosen: Sequence[QueueMessage]) -> None:
        for one in reversed(chosen):
            part, offset = self._part_of(one)
            if part is not None:
                del part.out[offset]
                part.again.appendleft(offset)
                part.share.take_back(offset)

    def _tell(self, consumer: Consumer) -> None:
        changed = {at: part for at, part in self._parts.items() if part.is_changed}
        if not changed:
            return
        consumer.commit({at: part.passed() for at, part in changed.items()})
        for part in changed.values():
            part.is_changed = False

    # -- dead letters -----------------------------------------------------------------------

    def _give_up(self, consumer: Consumer, spent: Sequence[tuple[TopicPartition, int]]) -> None:
        """Turn messages into dead letters and pass them, in one transaction: once each."""
        topic = self._names.queue_letters(self._node, self._queue)
        records = {(at, offset): self._parts[at].records[offset] for at, offset in spent}
        try:
            writer = self._writer or self._open_writer()
            topic_id = self._ask_topic_id()
            writer.begin()
            for (at, offset), record in records.items():
                letter = DeadLetter(
                    reason=MAX_DELIVERIES,
                    detail=f"handed out {self._most} times and not acknowledged",
                    topic=at.topic,
                    partition=at.partition,
                    offset=offset,
                    topic_id=topic_id,
                    target=at.topic,
                    identity=str(received(record).identity),
                )
                value, key, headers = dead_letter_record(
                    letter, record.key(), record.value(), headers_of(record)
                )
                writer.produce(topic, value, key, at.partition, headers=headers)
                self._parts[at].finish(offset)
            positions = {at: self._parts[at].passed() for at, _ in spent}
            writer.send_offsets(positions, consumer.ticket)
            writer.commit()
        except TransportError:
            # The group has the truth: everything is taken up again from there.
            self._close_writer()
            self._leave()
            raise
        self.given_up += len(spent)
        for at in positions:
            self._parts[at].is_changed = False

    def _ask_topic_id(self) -> bytes:
        known = self._kafka.admin().describe([self._topic])
        if self._topic not in known:
            raise TransportUnavailableError(f"topic {self._topic} is gone")
        return known[self._topic].topic_id

    def _open_writer(self) -> Writer:
        letters = self._names.queue_letters(self._node, self._queue)
        spec = TopicSpec(name=letters, partitions=self._partitions, settings=_LETTERS_KEPT)
        self._kafka.admin().create([spec])
        name = self._names.queue_transactions(self._node, self._queue, self._member)
        self._writer = self._kafka.writer("queue", name)
        return self._writer

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _leave(self) -> None:
        self._parts.clear()
        self._reading.release()

    @property
    def is_closed(self) -> bool:
        """Whether the consumer is closed."""
        return self._reading.is_closed

    def close(self) -> None:
        """Commit what was acknowledged, and leave the group; iterating ends.

        Raises:
            TransportError: It could not be saved; the group is left all the same.
        """
        if self._reading.is_closed or self._reading.process.is_forked:
            return
        with self._reading.closing():
            try:
                self._tell_all()
            except TransportMovedError:
                pass  # somebody else has them: they are handed out again, as promised
            finally:
                self._close_writer()
                self._parts.clear()


def _next_of(part: _Part) -> int | None:
    """Take the next offset to hand out, or None: given back messages come first."""
    if part.again:
        return part.again.popleft()
    if part.fresh and part.share.has_room(part.fresh[0]):
        return part.fresh.popleft()
    return None
