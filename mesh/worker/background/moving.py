"""Messages of a queue move on to another member, where somebody consumes them. Spec: DESIGN 6.

A mover is a consumer of its own node's queue, in the queue's group like any other, so that no
message is given to two. What it is given it sends to the other member as an addressed copy; the
copies, the group's offsets and the chain are one transaction. Killed at any moment, nothing is
lost or doubled: the group's offsets are where the next one goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from mesh.core.moving import MEMBER
from mesh.core.redelivery import Share
from mesh.core.routing import LocalLink
from mesh.errors import DecodeError
from mesh.lane.batch import Rows
from mesh.lane.kept import kept_in
from mesh.lane.lane import Lane, Source
from mesh.lane.messages.outgoing import Provenance, hop_over
from mesh.lane.messages.refusing import letter_row
from mesh.model.facts import Sent
from mesh.model.frames import (
    NONE_OFFSET,
    Chain,
    Delivery,
    FrameFlags,
    MessageClass,
    Origin,
    SourcePartition,
)
from mesh.model.headers import GAP_HEADER
from mesh.model.queues import MOVED_EXT, SUBJECT_EXT, moved_once_more
from mesh.model.state import DeadLetter, Ledger, SentCount
from mesh.transport.headers import headers_of
from mesh.transport.port import (
    Consumer,
    Headers,
    KafkaCluster,
    Passed,
    Record,
    TopicPartition,
    Writer,
)
from mesh.wire.deliveries import delivery_of
from mesh.wire.frames import assemble_value, encode_ext, encode_tail, key_tail, relay_key
from mesh.wire.keys import fact_key
from mesh.wire.state import encode_ledger
from mesh.worker.lanes.second_writer import (
    open_second_writer_of,
    second_partition_of,
    second_progress,
)
from mesh.worker.process.commits import Commits, Pending
from mesh.worker.process.errands import Steps
from mesh.worker.process.recall import Recall
from mesh.worker.process.transactions import write_rows

CHUNK = 500
"""Messages that are moved in one transaction at most."""

MOVED_ROOM = 4_000
"""What moving adds to a message at most."""

log = structlog.get_logger()


_Sent = dict[tuple[TopicPartition, SourcePartition], int]
"""Last offset sent, per outbox partition and partition of the endpoint. Spec: K11."""


@dataclass(slots=True)
class _Part:
    """A partition of the queue that the group has given to this mover."""

    taken: Passed
    share: Share
    end: int


@dataclass(slots=True)
class Opened:
    """What a mover needs, opened; nothing of it if the queue has no topic yet.

    Attributes:
        topic_id: Of the endpoint's topic.
        consumer: A member of its group.
        writer: Writes its transactions.
        sent: What movers of this lane have sent of the topic so far.
    """

    topic_id: bytes = b""
    consumer: Consumer | None = None
    writer: Writer | None = None
    sent: _Sent = field(default_factory=dict)

    def begin(self, lane: Lane, queue: str) -> Mover | None:
        """Return the mover, or None if the queue has no topic."""
        if self.consumer is None or self.writer is None:
            return None
        lane.positions.sent_by_movers(self.sent)
        log.info("queue.moving", queue=queue, lane=lane.number)
        return Mover(lane, queue, self.consumer, self.writer, self.topic_id, self.sent)

    def close(self) -> None:
        """Leave the group: nobody wants it any more."""
        if self.consumer is not None:
            self.consumer.close()
        if self.writer is not None:
            self.writer.close()


def open_mover(home: KafkaCluster, recall: Recall, lane: Lane, queue: str) -> Steps[Opened]:
    """Join a queue's group, step by step.

    The lane's second writer is opened once before the progress is read: what a predecessor
    has left open there would end nowhere. After it, and the mover's own, nothing of what is
    read can change any more. Spec: R3, K16.

    Raises:
        TransportError: It cannot be done now.
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
) -> Steps[Opened]:
    yield
    info = home.admin().describe([topic]).get(topic)
    if info is None:
        return Opened()
    fence().close()
    yield
    writer = home.writer(*mover)
    try:
        yield
        sent = _sent_before(recall.records(progress), info.topic_id)
        consumer = home.consumer(MEMBER, topic, topic)
    except BaseException:
        writer.close()
        raise
    return Opened(info.topic_id, consumer, writer, sent)


@dataclass(slots=True)
class _Moving:
    """What a mover has decided to move.

    Attributes:
        sent: Last offset sent then; see `Mover`.
        rows: What is to be written.
        written: Outbox partitions among that.
        counts: Messages by class.
    """

    sent: _Sent
    rows: Rows = field(default_factory=lambda: Rows(list))
    written: dict[TopicPartition, None] = field(default_factory=dict)
    counts: Counter[MessageClass] = field(default_factory=Counter)


@dataclass(slots=True)
class Mover:
    """Moves what its lane is given of one queue. One transaction at a time.

    Its frames leave in partitions that its lane writes, so each has one lane as its writer.

    Attributes:
        lane: Whose.
        queue: Name of the endpoint.
        consumer: Its membership of the queue's group.
        writer: Writes its transactions.
        topic_id: Of the endpoint's topic.
        sent: Last offset sent, per outbox partition and partition of the endpoint. Spec: K11.
        marks: How far its outbox partitions must be read before all that it wrote there is.
        unmarked: Those that it has written since it was asked where they end.
        pending: The commit under way.
    """

    lane: Lane
    queue: str
    consumer: Consumer
    writer: Writer
    topic_id: bytes
    sent: _Sent = field(default_factory=dict)
    marks: dict[TopicPartition, int] = field(default_factory=dict)
    unmarked: dict[TopicPartition, None] = field(default_factory=dict)
    pending: Pending = field(default_factory=Pending)
    _moving: _Moving | None = None
    _parts: dict[TopicPartition, _Part] = field(default_factory=dict)
    _early: list[Record] = field(default_factory=list)

    def rest(self) -> None:
        """Take nothing more, and stay a member."""
        self.consumer.pause(list(self.consumer.owned()))
        # What was given just now is not paused yet: it is moved first when this goes on.
        given = self._read(1)  # which may take away what was given before
        self._early += given

    def begin_to_move(self, link: LocalLink, address: str, most: int, commits: Commits) -> None:
        """Begin to send up to so many messages to a member, if there are any.

        Args:
            link: The link on the way.
            address: The member's.
            most: How many; more than none.
            commits: Commits beside the loop.

        Raises:
            TransportError: Nothing was moved; close it.
        """
        self.consumer.pause([])
        records = self._read(min(most, CHUNK))
        records, self._early = [*self._early, *records], []
        if not records:
            return
        moving = self._moving = _Moving(dict(self.sent))
        for record in records:
            part = self._parts[TopicPartition(record.topic(), record.partition())]
            if not part.share.is_done(record.offset()):
                self._decide(record, link, address, moving)
        passed = self._pass(records)
        self._account(link, moving)
        moving_on = partial(_transact, self.writer, moving.rows, passed, self.consumer.ticket)
        self.pending.begin(commits, moving_on)

    def end_move(self) -> int:
        """Wait for what was begun; return how many messages were sent.

        Raises:
            TransportError: Nothing was moved; close it.
        """
        moving, self._moving = self._moving, None
        self.pending.end()
        if moving is None:
            return 0
        self.sent = moving.sent
        # A neighbour that asks what has become of them is told by the lane. Spec: K11.
        self.lane.positions.sent_by_movers(moving.sent)
        self.unmarked |= moving.written
        return sum(moving.counts.values())

    def _read(self, most: int) -> list[Record]:
        """Read, and follow what the group gives and takes."""
        records = self.consumer.read(0.0, most)
        owned = self.consumer.owned()
        for at in [at for at, part in self._parts.items() if owned.get(at) is not part.taken]:
            del self._parts[at]
            self._early = [
                one for one in self._early if TopicPartition(one.topic(), one.partition()) != at
            ]
        for at, passed in owned.items():
            if at not in self._parts:
                share = Share.parse(max(0, passed.offset), passed.remark)
                self._parts[at] = _Part(passed, share, share.base)
        return list(records)

    def _decide(self, record: Record, link: LocalLink, address: str, moving: _Moving) -> None:
        """Decide what is written for a message: its copy, or a dead letter if it is none.

        A stranger may have written it, in the form of a delivery too.
        """
        headers = headers_of(record)
        try:
            delivery = delivery_of(headers)
            tail = encode_tail(record.key(), headers[:-2], record.value(), _ext(delivery, headers))
            if len(tail) > self.lane.topology.max_message_bytes + MOVED_ROOM:
                raise DecodeError("it is larger than a message may be")  # noqa: TRY301
        except Exception as error:  # noqa: BLE001 - whatever it raises, it is this record's fault
            self._leave_out(record, str(error), moving)
            return
        at = TopicPartition(record.topic(), self._target_partition(record.partition()))
        source = Source(at, self.topic_id, delivery.message_class, None)
        outbox, of = (
            self.lane.outbox(link, source),
            SourcePartition(self.topic_id, record.partition()),
        )
        offset = record.offset()
        previous = moving.sent.get((outbox, of), NONE_OFFSET)
        chain = Chain(source=of, previous=previous, first=offset, last=offset)
        moving.sent[outbox, of] = offset
        moving.written[outbox] = None
        moving.counts[delivery.message_class] += 1
        origin = Origin(
            node=delivery.path[0],
            source=delivery.source,
            generation=delivery.generation,
            first=delivery.offset,
            last=delivery.offset,
            count=1,
            subjects=(address,),
            eras=(self.lane.learner.era,),
        )
        hop = hop_over(self.lane, link, _provenance(self.lane, origin, offset), chain)
        value = assemble_value(record.timestamp()[1], [(0, 0, 0, tail)])
        key = relay_key(hop, key_tail(origin, FrameFlags.NONE))
        moving.rows[outbox.topic, outbox.partition].append((value, key, 0, None))

    def _target_partition(self, partition: int) -> int:
        """Return which partition of outboxes takes a partition's copies: one of the lane's. K2."""
        lanes = self.lane.topology.nodes[self.lane.node].lanes
        return partition - partition % lanes + self.lane.number

    def _leave_out(self, record: Record, why: str, moving: _Moving) -> None:
        """Keep what is no message, and cannot move, as a dead letter of the node."""
        is_announcement = [name for name, _ in headers_of(record)] == [GAP_HEADER]
        letter = DeadLetter(
            reason="NOT_MOVED",
            detail="it announces a loss, which stays here" if is_announcement else why,
            topic=record.topic(),
            partition=record.partition(),
            offset=record.offset(),
            topic_id=self.topic_id,
        )
        lane = self.lane
        place = TopicPartition(lane.names.dead_letters(lane.node), second_partition_of(lane))
        headers = headers_of(record)
        row = letter_row(letter, record.key(), record.value(), headers)
        moving.rows[place.topic, place.partition].append(row)
        log.warning("queue.not_moved", queue=self.queue, offset=record.offset(), why=letter.detail)

    def _pass(self, records: Sequence[Record]) -> Mapping[TopicPartition, Passed]:
        """Return how far the transaction is to move the group: behind these records."""
        for record in records:
            part = self._parts[TopicPartition(record.topic(), record.partition())]
            part.end = max(part.end, record.offset() + 1)
        passed: dict[TopicPartition, Passed] = {}
        for at in {TopicPartition(one.topic(), one.partition()): None for one in records}:
            part = self._parts[at]
            part.share.finish(part.end - 1, (), part.end)
            passed[at] = Passed(part.share.base, part.share.remark)
        return passed

    def _account(self, link: LocalLink, moving: _Moving) -> None:
        lane, partition = self.lane, second_partition_of(self.lane)
        progress, ledger = lane.names.progress(lane.node), lane.names.ledger(lane.node)
        for (outbox, of), offset in moving.sent.items():
            if self.sent.get((outbox, of)) == offset:
                continue
            told = lane.sent((outbox, of), offset, 0)
            row = (lane.encoded(told), fact_key(told.key), 0, None)
            moving.rows[progress, partition].append(row)
        account = Ledger(
            node=lane.node,
            lane=lane.number,
            lane_epoch=lane.positions.epoch,
            sent=[SentCount(link.neighbour, one, n, n) for one, n in moving.counts.items() if n],
        )
        moving.rows[ledger, partition].append((encode_ledger(account), None, 0, None))

    def take_unmarked(self) -> Sequence[TopicPartition]:
        """Return, once, the outbox partitions that it has written."""
        taken, self.unmarked = list(self.unmarked), {}
        return taken

    def forget_lost(
        self, ends: Mapping[TopicPartition, int], asked: Mapping[TopicPartition, int]
    ) -> None:
        """Wait no longer for what an outbox has lost to be read.

        Args:
            ends: Where outboxes end.
            asked: The marks when that was asked for; later ones may be beyond.
        """
        self.marks = {
            at: mark
            for at, mark in self.marks.items()
            if mark > asked.get(at, -1) or ends.get(at, 0) >= mark
        }

    def close(self) -> None:
        """Leave the group at once."""
        self.consumer.close()
        self.pending.close(self.writer)
        log.info("queue.moved", queue=self.queue, lane=self.lane.number)


def _transact(
    writer: Writer, rows: Rows, passed: Mapping[TopicPartition, Passed], ticket: object
) -> None:
    writer.begin()
    write_rows(writer, rows)
    writer.send_offsets(passed, ticket)
    writer.commit()


def _provenance(lane: Lane, origin: Origin, offset: int) -> Provenance:
    """Return where a moved message comes from: its path begins anew, its identity is kept."""
    return Provenance(
        node=origin.node,
        source=origin.source,
        generation=origin.generation,
        zone="",
        hops=0,
        crossed_external=False,
        path=(lane.node,),
        frame=offset,
        eras=origin.eras,
    )


def _ext(delivery: Delivery, headers: Headers) -> bytes:
    """Return what travels with a moved message: the client's subject, and how often it moved."""
    subject = headers[-2][1] or b""
    told = {SUBJECT_EXT: subject, MOVED_EXT: moved_once_more(delivery.ext)}
    return encode_ext({**delivery.ext, **told})


def _sent_before(records: Sequence[Record], topic_id: bytes) -> _Sent:
    """Return what movers of a lane have sent of a topic so far, by its progress."""
    sent: _Sent = {}
    for fact in kept_in(records).facts.values():
        if isinstance(fact, Sent) and fact.source.topic_id == topic_id:
            sent[fact.at, fact.source] = fact.last
    return sent
