"""Delivered messages, and losses announced among them, read from records of endpoints.

Spec: K8, K9.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mesh.errors import DecodeError
from mesh.model.frames import Delivery, MessageClass
from mesh.model.losses import Loss
from mesh.transport.headers import headers_of
from mesh.transport.port import Record, TopicPartition, place_of
from mesh.wire.announcements import decode_announcement, is_announcement
from mesh.wire.deliveries import delivery_of


@dataclass(frozen=True, slots=True, order=True)
class MessageIdentity:
    """An identity that no two messages share. Spec: K9.

    Attributes:
        topic_id: The broker's id of the ingress topic, 32 hexadecimal digits.
        partition: Its partition.
        generation: 0 unless an operator accepted a truncation.
        offset: Offset there.
    """

    topic_id: str
    partition: int
    generation: int
    offset: int

    def __str__(self) -> str:
        """Return the form that `mesh trace` takes."""
        return f"{self.topic_id}/{self.partition}/{self.generation}/{self.offset}"

    @classmethod
    def parse(cls, text: str) -> MessageIdentity:
        """Return the identity that ``str`` wrote.

        Raises:
            ValueError: The text is not one.
        """
        topic_id, partition, generation, offset = text.split("/")
        if len(bytes.fromhex(topic_id)) != 16:
            raise ValueError(f"not a topic id: {topic_id!r}")
        return cls(topic_id, int(partition), int(generation), int(offset))

    @classmethod
    def of(cls, delivery: Delivery) -> MessageIdentity:
        """Return the identity in the header of a delivery."""
        source = delivery.source
        return cls(source.topic_id.hex(), source.partition, delivery.generation, delivery.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedMessage:
    """One delivered message.

    Attributes:
        subject: Mesh address it was published to.
        key: Record key.
        headers: The client's own, in order; names may repeat and values be None.
        payload: Record value; None is a tombstone.
        path: Nodes visited, origin first, this node last.
        identity: Its identity, which no other message shares.
        message_class: Its class, which it kept on every hop.
        timestamp: The publisher's create time, ms since 1970.
        place: Topic partition of the delivery.
        offset: Offset of the delivery.
    """

    subject: str
    key: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    payload: bytes | None
    path: tuple[str, ...]
    identity: MessageIdentity
    message_class: MessageClass
    timestamp: int
    place: TopicPartition
    offset: int


def received(record: Record) -> ReceivedMessage:
    """Return the message in a record of an endpoint's topic.

    Raises:
        DecodeError: The mesh did not write it.
    """
    headers = headers_of(record)
    try:
        delivery = delivery_of(headers)
    except DecodeError as error:
        raise DecodeError(
            f"{record.topic()}[{record.partition()}] offset {record.offset()}: no delivery; "
            f"somebody else wrote to this endpoint: {error}"
        ) from error
    return ReceivedMessage(
        subject=(headers[-2][1] or b"").decode(),
        key=record.key(),
        headers=tuple(headers[:-2]),
        payload=record.value(),
        path=delivery.path,
        identity=MessageIdentity.of(delivery),
        message_class=delivery.message_class,
        timestamp=record.timestamp()[1],
        place=place_of(record),
        offset=record.offset(),
    )


def announced(record: Record) -> Loss | None:
    """Return the loss that a record of an endpoint's topic announces, or None.

    Raises:
        DecodeError: It lacks what this version requires of a loss.
    """
    headers = headers_of(record)
    return decode_announcement(headers) if is_announcement(headers) else None


def said(record: Record) -> ReceivedMessage | Loss | None:
    """Return the message or the loss that a record of an endpoint's topic contains.

    None: the mesh did not write it.
    """
    try:
        return announced(record) or received(record)
    except DecodeError:
        return None


class Sifter:
    """Extracts the messages from what is read.

    Attributes:
        foreign: Records skipped because the mesh did not write them.
        losses: Losses announced among the messages read so far, oldest first.
    """

    def __init__(self) -> None:
        self.foreign = 0
        self.losses: list[Loss] = []

    def sifted(self, records: Iterable[Record]) -> list[ReceivedMessage]:
        """Return the messages among records, in their order."""
        found: list[ReceivedMessage] = []
        for record in records:
            match said(record):
                case ReceivedMessage() as message:
                    found.append(message)
                case Loss() as loss:
                    self.losses.append(loss)
                case None:
                    self.foreign += 1
        return found
