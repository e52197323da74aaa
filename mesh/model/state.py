"""Values that a lane writes about itself: progress and ledger. Spec: K12, K25, kafka.md 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from mesh.model.frames import NONE_OFFSET, Era, MessageClass


class ProgressKind(StrEnum):
    """What a progress record tells. Spec: K12."""

    SOURCE = "source"
    SENT = "sent"
    ACCEPTED = "accepted"
    INTEREST = "interest"
    HELD = "held"
    EPOCH = "epoch"
    STOPPED = "stopped"
    GAP = "gap"
    ERA = "era"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class InForce:
    """A version of interest in force: `scope` is `clients` or `<neighbour> <scope>`."""

    scope: str
    epoch: int
    number: int


@dataclass(frozen=True, slots=True)
class EraBegan:
    """From offset `first` of a source on, its node worked by the topology of this era. K10."""

    first: int
    era: Era


@dataclass(frozen=True, slots=True)
class Refused:
    """A frame that was not taken whole: only messages after an origin offset, or none (-1). K20."""

    offset: int
    after: int


@dataclass(frozen=True, slots=True)
class Standby:
    """How much of what neighbours want a worker without lanes has heard. Spec: K16, K21."""

    in_force: Sequence[InForce] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One changed position of a lane.

    Attributes:
        kind: What it tells.
        offset: source: next offset; held: first source offset not written, -1 if it is held no
            longer; sent, accepted: last offset; epoch: the lane epoch;
            interest: the own `clients` offset in force; stopped: first offset of what is lost;
            gap: last offset accepted before it.
        topic: Kafka topic it speaks of (source, outbox, target), or empty.
        partition: Its partition, or -1.
        topic_id: Topic id of `topic` for source and stopped, of the sender's source for sent,
            accepted, gap and held.
        source_partition: sent, accepted, gap, held: partition of that source; else -1.
        in_force: interest: the versions in force.
        ahead: source, direct: so many offsets from `offset` on may have been handed on already;
            stopped: so many are lost, -1 if nobody can know; gap: attempts before this one; held:
            number of the hold; sent: first offset that the link may carry, -1 if there is none.
        generation: source: of the offsets that are read.
        reason: stopped: why; source: `left` if the link was removed.
        link: sent, accepted, held, gap: number of the topology that made the outbox's link.
        leader_epoch: source: of the record read last, -1 if it is not known.
        eras: era: by which topologies the source worked, ascending.
        refused: refused: frames of a block of an outbox that were not taken whole; `offset` is the
            number of the block.

    Spec: K9, K10, K12, K18, R6.
    """

    kind: ProgressKind
    offset: int
    topic: str = ""
    partition: int = -1
    topic_id: bytes | None = None
    source_partition: int = -1
    in_force: Sequence[InForce] = ()
    ahead: int = 0
    generation: int = 0
    reason: str = ""
    link: int = 0
    leader_epoch: int = -1
    eras: Sequence[EraBegan] = ()
    refused: Sequence[Refused] = ()


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

    Or it goes by another topology: then `$change` stands for the uuid, and the topology's number
    for the offset. Spec: K25, K28.
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
    """Why a guaranteed message is lost to one target, and announced there. Spec: R12, R14."""

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
