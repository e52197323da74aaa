"""What is written to move a queue's messages to a member elsewhere. Spec: K11."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import structlog

from mesh.core.local_links import LocalLink
from mesh.errors import DecodeError
from mesh.lane.batch import Rows
from mesh.lane.lane import Lane
from mesh.lane.messages.outgoing import Provenance, hop_over
from mesh.lane.messages.refusing import letter_row
from mesh.lane.sources import Source
from mesh.model.frames import (
    GENERATION_MAX,
    NONE_OFFSET,
    Chain,
    Delivery,
    FrameFlags,
    MessageClass,
    Origin,
    SourcePartition,
    position_in_chain,
)
from mesh.model.queues import MOVED_EXT, SUBJECT_EXT, moved_once_more
from mesh.model.record_headers import MESH_HEADER, SUBJECT_HEADER
from mesh.model.state import DeadLetter, Ledger, SentCount
from mesh.transport.headers import headers_of
from mesh.transport.port import Headers, Record, TopicPartition
from mesh.wire.announcements import is_announcement
from mesh.wire.deliveries import delivery_of
from mesh.wire.frames import assemble_value, encode_ext, encode_tail, key_tail, relay_key
from mesh.wire.keys import fact_key
from mesh.wire.state import encode_ledger
from mesh.worker.lanes.second_writer import second_partition_of

MOVED_ROOM = 4_000
"""What moving adds to the size of a message at most."""

log = structlog.get_logger()

ChainEnds = dict[tuple[TopicPartition, SourcePartition], int]
"""Last position sent, per outbox partition and partition of the endpoint. Spec: K11."""


@dataclass(slots=True)
class Moving:
    """What a mover has decided to move, in one transaction.

    Attributes:
        lane, queue: The mover's.
        topic_id: Of the endpoint's topic.
        link: On the way to the member.
        address: The member's.
        before: Last position sent until now.
        sent: Last position sent after this.
        rows: What is to be written.
        written: Outbox partitions among that.
        counts: Messages by class.
        ends_written: Offset after the last copy, per outbox partition, as far as it is known.
    """

    lane: Lane
    queue: str
    topic_id: bytes
    link: LocalLink
    address: str
    before: ChainEnds
    sent: ChainEnds = field(init=False)
    rows: Rows = field(default_factory=lambda: Rows(list))
    written: dict[TopicPartition, None] = field(default_factory=dict)
    counts: Counter[MessageClass] = field(default_factory=Counter)
    ends_written: dict[TopicPartition, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin where movers of the lane left off."""
        self.sent = dict(self.before)

    def decide(self, record: Record) -> None:
        """Decide what to write for a message: its copy, or a dead letter if it is not a message.

        A stranger may have written it, even in the form of a delivery.
        """
        headers = headers_of(record)
        try:
            delivery = delivery_of(headers)
            tail = encode_tail(record.key(), headers[:-2], record.value(), _ext(delivery, headers))
            if len(tail) > self.lane.topology.max_message_bytes + MOVED_ROOM:
                raise DecodeError("it is larger than a message may be")  # noqa: TRY301
        except Exception as error:  # noqa: BLE001 - whatever it raises, it is this record's fault
            self._leave_out(record, str(error))
            return
        at = TopicPartition(record.topic(), self._target_partition(record.partition()))
        source = Source(at, self.topic_id, delivery.message_class, None)
        outbox, of = (
            self.lane.outbox(self.link, source),
            SourcePartition(self.topic_id, record.partition()),
        )
        offset = record.offset()
        previous = self.sent.get((outbox, of), NONE_OFFSET)
        # If the log has lost its end, this may stand where another record stood that has moved,
        # and no witness may be left. No two records share offset and leader epoch. Spec: K11.
        generation = min(record.leader_epoch() or 0, GENERATION_MAX)
        position = position_in_chain(generation, offset)
        chain = Chain(source=of, previous=previous, first=position, last=position)
        self.sent[outbox, of] = position
        self.written[outbox] = None
        self.counts[delivery.message_class] += 1
        origin = Origin(
            node=delivery.path[0],
            source=delivery.source,
            generation=delivery.generation,
            first=delivery.offset,
            last=delivery.offset,
            count=1,
            subjects=(self.address,),
            eras=(self.lane.learner.era,),
        )
        hop = hop_over(self.lane, self.link, _provenance(self.lane, origin, offset), chain)
        value = assemble_value(record.timestamp()[1], [(0, 0, 0, tail)])
        key = relay_key(hop, key_tail(origin, FrameFlags.NONE))
        self.rows[outbox.topic, outbox.partition].append((value, key, 0, None))

    def _target_partition(self, partition: int) -> int:
        """Return the outbox partition for a partition's copies: one of the lane's. K2."""
        return partition - partition % self.lane.lanes + self.lane.number

    def _leave_out(self, record: Record, why: str) -> None:
        """Keep a record that is no message, and cannot move, as a dead letter of the node."""
        headers = headers_of(record)
        letter = DeadLetter(
            reason="NOT_MOVED",
            detail="it announces a loss, which stays here" if is_announcement(headers) else why,
            topic=record.topic(),
            partition=record.partition(),
            offset=record.offset(),
            topic_id=self.topic_id,
        )
        lane = self.lane
        place = TopicPartition(lane.names.dead_letters(lane.node), second_partition_of(lane))
        row = letter_row(letter, record.key(), record.value(), headers)
        self.rows[place.topic, place.partition].append(row)
        log.warning(
            "queue.not_moved",
            queue=self.queue,
            lane=lane.number,
            fault=letter.detail,
            offset=record.offset(),
        )

    def note_written(self, topic: str, partition: int, offset: int, fault: str) -> None:
        """Note where the last copy of an outbox partition was written.

        That is not the end of its log: the transaction marker is there, and no position passes it
        before the next record.
        """
        if not fault:
            self.ends_written[TopicPartition(topic, partition)] = offset + 1

    def account(self) -> None:
        """Write how far movers of the lane have sent, and how much."""
        lane, partition = self.lane, second_partition_of(self.lane)
        progress, ledger = lane.names.progress(lane.node), lane.names.ledger(lane.node)
        for (outbox, of), position in self.sent.items():
            if self.before.get((outbox, of)) == position:
                continue
            told = lane.sent((outbox, of), position, 0)
            row = (lane.encoded(told), fact_key(told.key), 0, None)
            self.rows[progress, partition].append(row)
        account = Ledger(
            node=lane.node,
            lane=lane.number,
            lane_epoch=lane.progress.epoch,
            sent=[SentCount(self.link.neighbour, one, n, n) for one, n in self.counts.items() if n],
        )
        self.rows[ledger, partition].append((encode_ledger(account), None, 0, None))


def client_subject(record: Record) -> str:
    """Return the subject of a message in a queue; empty for a record that is no message."""
    headers = headers_of(record)
    if [name for name, _ in headers[-2:]] != [SUBJECT_HEADER, MESH_HEADER]:
        return ""
    return (headers[-2][1] or b"").decode(errors="replace")


def _provenance(lane: Lane, origin: Origin, offset: int) -> Provenance:
    """Return where a moved message comes from: its path starts over, its identity is kept."""
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
        join_hops=0,
    )


def _ext(delivery: Delivery, headers: Headers) -> bytes:
    """Return the extension of a moved message: the client's subject, and how often it moved."""
    subject = headers[-2][1] or b""
    told = {SUBJECT_EXT: subject, MOVED_EXT: moved_once_more(delivery.ext)}
    return encode_ext({**delivery.ext, **told})
