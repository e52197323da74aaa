"""Records that cannot be served become dead letters, with a reason. Spec: kafka.md 1, K7, R12."""

from __future__ import annotations

from mesh.codec.dead_letters import dead_letter_record
from mesh.errors import TransportError
from mesh.model.state import DeadLetter
from mesh.runtime.lane.batch import Batch
from mesh.runtime.lane.lane import Lane, Source
from mesh.transport.headers import UNREADABLE, headers_of
from mesh.transport.port import Headers, Record, TopicPartition, Writer

POISON = "POISON"
"""Why a record is refused that nothing here can make sense of."""


def refuse(
    lane: Lane, batch: Batch, source: Source, record: Record, reason: str, detail: str
) -> None:
    """Write a record of a source to the dead letters, in the open transaction, and count it.

    Args:
        lane: Who refuses.
        batch: The open transaction.
        source: Where the record was read.
        record: What is refused; its full sizes are told, its parts cut to what is kept.
        reason: A word in capitals, for example ``TOO_LARGE``.
        detail: What is wrong, for people.

    Who reads again for one target refuses again what the lane has refused: that is told once.
    """
    if lane.narrowed is not None:
        return
    batch.dropped(reason.lower(), source.at)
    letter = DeadLetter(
        reason=reason,
        detail=detail,
        topic=source.at.topic,
        partition=source.at.partition,
        offset=record.offset(),
        topic_id=source.topic_id,
    )
    place = TopicPartition(lane.names.dead_letters(lane.node), lane.number)
    writer = lane.writer
    try:
        write_letter(writer, place, letter, record.key(), record.value(), headers_of(record))
    except Exception as error:
        if reason != POISON or isinstance(error, TransportError):
            raise
        write_letter(writer, place, letter, None, None, UNREADABLE)  # of what it is nothing holds


def write_letter(
    writer: Writer,
    place: TopicPartition,
    letter: DeadLetter,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
) -> None:
    """Write a dead letter in the open transaction.

    Args:
        writer: Writes it.
        place: Partition of the dead letters.
        letter: What it says; the sizes are filled in here.
        key: Of the record that is refused; cut to what is kept, as the following.
        value: Likewise.
        headers: Likewise.
    """
    refused, name, told = dead_letter_record(letter, key, value, headers)
    writer.produce(place.topic, refused, name, place.partition, headers=told)
