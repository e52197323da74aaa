"""Values that a worker records about itself besides facts: ledger, dead letters, what it heard.

Spec: K25, kafka.md 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from mesh.model.facts import InForce
from mesh.model.frames import NONE_OFFSET, MessageClass


@dataclass(frozen=True, slots=True)
class Standby:
    """How much of neighbours' interest a worker without lanes has heard. Spec: K16, K21."""

    in_force: Sequence[InForce] = ()


@dataclass(frozen=True, slots=True)
class SourceRange:
    """What a batch read of one source partition: offsets from `first` below `next`."""

    topic: str
    topic_id: bytes
    partition: int
    first: int
    next: int
    messages: int


@dataclass(frozen=True, slots=True)
class SentCount:
    """What a batch wrote to one outbox."""

    neighbour: str
    message_class: MessageClass
    messages: int
    frames: int
    repair: bool = False


@dataclass(frozen=True, slots=True)
class DeliveredCount:
    """What a batch wrote to one endpoint, by the class of the messages."""

    endpoint: str
    message_class: MessageClass
    messages: int


@dataclass(frozen=True, slots=True)
class NotForwarded:
    """Messages that did not leave on a link, with the one reason."""

    neighbour: str
    reason: str
    message_class: MessageClass
    messages: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """Messages or frames of a source that went nowhere, with the reason."""

    reason: str
    topic: str
    partition: int
    messages: int


@dataclass(frozen=True, slots=True)
class Cut:
    """From `position` of a source on, routing knows `uuid`'s subscriptions up to an offset.

    If it goes by another topology instead, `$change` stands for the uuid, and the topology's
    number for the offset. Spec: K25, K28.
    """

    topic: str
    topic_id: bytes
    partition: int
    position: int
    uuid: str
    clients_offset: int = NONE_OFFSET


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """What one committed batch of a lane did."""

    node: str
    lane: int
    lane_epoch: int
    sources: Sequence[SourceRange] = ()
    sent: Sequence[SentCount] = ()
    delivered: Sequence[DeliveredCount] = ()
    not_forwarded: Sequence[NotForwarded] = ()
    dropped: Sequence[Dropped] = ()
    cuts: Sequence[Cut] = ()


class LossReason(StrEnum):
    """Why a guaranteed message is lost for one target, and announced there. Spec: R12, R14."""

    QUARANTINED = "quarantined"
    UNREADABLE = "unreadable"
    ENDPOINT_FULL = "endpoint_full"
    ENDPOINT_EXPIRED = "endpoint_expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """Why a record was refused, and where it came from. Spec: kafka.md 1.

    Attributes:
        reason, detail: A word in capitals, and what is wrong, for people.
        topic, partition, offset, topic_id: Where the record was read.
        key_size, value_size, headers_size: Its full sizes.
        target: The topic that lacks it; empty if it was refused before it had any.
        identity: Of the message, or of the first and last of a frame; empty if it has none.
    """

    reason: str
    detail: str
    topic: str
    partition: int
    offset: int
    topic_id: bytes | None = None
    key_size: int = 0
    value_size: int = 0
    headers_size: int = 0
    target: str = ""
    identity: str = ""
