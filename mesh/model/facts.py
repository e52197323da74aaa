"""What a lane records about itself, one class per fact. `mesh.wire.state` makes the bytes.

A fact is absolute, never relative to an earlier one. It replaces what had its own key and nothing
else, and means the same whatever other keys say: so a reader of a compacted topic knows what a
lane knows that lived through all of it. Spec: K12.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mesh.model.control import Stop, StopReason
from mesh.model.frames import Era, SourcePartition, TopicPartition

FactKey = (
    tuple[str] | tuple[str, str, int] | tuple[str, str, int, int] | tuple[str, str, int, bytes, int]
)
"""What a fact replaces: its word, then its subject."""

NOWHERE = TopicPartition("", -1)
"""Stands for the partition if a fact is about the lane itself."""

ENDED = -1
"""Offset that says that a target is no longer held."""

UNLINKED = -1
"""First offset that an outbox without a link at present may carry."""


@dataclass(frozen=True, slots=True)
class _OfLane:
    word: ClassVar[str]
    at: ClassVar[TopicPartition] = NOWHERE

    @property
    def key(self) -> FactKey:
        """Return what this replaces."""
        return (self.word,)


@dataclass(frozen=True, slots=True)
class _OfPartition:
    word: ClassVar[str]

    at: TopicPartition

    @property
    def key(self) -> FactKey:
        """Return what this replaces."""
        return (self.word, self.at.topic, self.at.partition)


@dataclass(frozen=True, slots=True)
class EpochRaised(_OfLane):
    """The lane was taken, and this is its epoch. Spec: K18."""

    word: ClassVar[str] = "epoch"

    epoch: int


@dataclass(frozen=True, slots=True)
class InForce:
    """A version of interest in force: `scope` is `clients` or `<neighbour> <scope>`."""

    scope: str
    epoch: int
    number: int


@dataclass(frozen=True, slots=True)
class InterestInForce(_OfLane):
    """What the lane routes by: the offset of the own clients, and all versions. Spec: K21, K25."""

    word: ClassVar[str] = "interest"

    clients: int
    versions: Sequence[InForce]


@dataclass(frozen=True, slots=True)
class SourceAt(_OfPartition):
    """How far a source is read.

    Written beside a lane it is about an endpoint: what is below became dead letters. Spec: R14.

    Attributes:
        at: The source.
        topic_id: Of its topic: positions in a recreated one are others.
        next: Next offset to read.
        ahead: Direct: so many offsets from `next` on may be handed on before another commit. K18.
        generation: Of these offsets. Spec: K9.
        is_unlinked: Its link was removed: what is there when it comes back may be another topic.
        kafka: Name of the Kafka cluster in which it was then; empty if nobody knew.
        cluster_id: Identity of that Kafka cluster, likewise: a name may mean another one later. K4.
        leader_epoch: Of the record read last, -1 if it is not known: a log that lost its end and
            grew again shows by it.
        behind: Of so many offsets before `next` direct copies may not be in Kafka yet: who dies now
            has lost them. K18.
    """

    word: ClassVar[str] = "source"

    topic_id: bytes
    next: int
    ahead: int = 0
    generation: int = 0
    is_unlinked: bool = False
    kafka: str = ""
    leader_epoch: int = -1
    behind: int = 0
    cluster_id: str = ""

    @property
    def deletion(self) -> Stop:
        """Return what an operator accepts who says that this very topic is deleted."""
        of, reason = self.at, StopReason.RECREATED
        generation = self.generation
        return Stop(of.topic, of.partition, self.topic_id, reason, self.next, generation=generation)


@dataclass(frozen=True, slots=True)
class Halted:
    """A source is read no further, or again: then its stop has no reason. Spec: R6."""

    word: ClassVar[str] = "stopped"

    stop: Stop

    @property
    def at(self) -> TopicPartition:
        """Return the source."""
        return TopicPartition(self.stop.topic, self.stop.partition)

    @property
    def is_over(self) -> bool:
        """Whether it is read again."""
        return not self.stop.reason

    @property
    def key(self) -> FactKey:
        """Return what this replaces."""
        return (self.word, self.stop.topic, self.stop.partition)


@dataclass(frozen=True, slots=True)
class EraBegan:
    """From offset `first` of a source on, its node worked by the topology of this era. K10."""

    first: int
    era: Era


@dataclass(frozen=True, slots=True)
class ErasBegun(_OfPartition):
    """The topologies under which a source was taken, ascending, at an offset. Spec: K10."""

    word: ClassVar[str] = "era"

    told_at: int
    eras: Sequence[EraBegan]


@dataclass(frozen=True, slots=True)
class Truncation:
    """A log lost its end, and that was accepted: later records have the same offsets. R6.

    Attributes:
        generation: Of the offsets from then on.
        first: The first of them.
        next: What was read up to here had them before, and is lost.
    """

    generation: int
    first: int
    next: int


@dataclass(frozen=True, slots=True)
class Truncations(_OfPartition):
    """All truncations of a source that were accepted, in order. Spec: K11, R6.

    A reader that missed an announcement of one gets it again in the repair that it requests.
    """

    word: ClassVar[str] = "truncated"

    topic_id: bytes
    each: Sequence[Truncation]


@dataclass(frozen=True, slots=True)
class PartFrame:
    """A frame that was not taken whole: only messages after an origin offset, or none (-1). K20."""

    offset: int
    after: int


@dataclass(frozen=True, slots=True)
class PartlyTaken:
    """The frames of a block of offsets of an outbox that were not taken whole. Spec: K20."""

    word: ClassVar[str] = "refused"

    at: TopicPartition
    topic_id: bytes
    block: int
    frames: Sequence[PartFrame]

    @property
    def key(self) -> FactKey:
        """Return what this replaces."""
        return partly_taken_key(self.at, self.block)


def partly_taken_key(at: TopicPartition, block: int) -> FactKey:
    """Return the key of what is recorded about a block of an outbox."""
    return (PartlyTaken.word, at.topic, at.partition, block)


@dataclass(frozen=True, slots=True)
class OfChain(_OfPartition):
    """A lane's record about one source at one outbox or target.

    Attributes:
        at: Partition of the outbox or target.
        source: The source, by identity: the sender's, where the outbox is read.
    """

    source: SourcePartition

    @property
    def key(self) -> FactKey:
        """Return what this replaces."""
        at, source = self.at, self.source
        return (self.word, at.topic, at.partition, source.topic_id, source.partition)


@dataclass(frozen=True, slots=True)
class Sent(OfChain):
    """How far a source was sent to an outbox. Spec: K11.

    Attributes:
        last: Position of its last message sent.
        since: Position from which the link carries it, 0 for all of it; `UNLINKED` without one.
        link: Number of the topology that made the link, 0 for one from the files. Spec: K12.
    """

    word: ClassVar[str] = "sent"

    last: int
    since: int = 0
    link: int = 0

    @property
    def is_unlinked(self) -> bool:
        """Whether the outbox has no link at present."""
        return self.since == UNLINKED


@dataclass(frozen=True, slots=True)
class Accepted(OfChain):
    """The position up to which a sender's source was accepted from an outbox. Spec: K11."""

    word: ClassVar[str] = "accepted"

    last: int


@dataclass(frozen=True, slots=True)
class Gap(OfChain):
    """A chain is broken, or whole again. Spec: K11.

    Attributes:
        last: Last accepted position before the gap.
        attempts: How often a repair was requested before.
        is_open: Whether it is broken.
    """

    word: ClassVar[str] = "gap"

    last: int
    attempts: int
    is_open: bool


@dataclass(frozen=True, slots=True)
class Held(OfChain):
    """A target is left out, and how far it is written beside the lane. Spec: K20.

    The lane and its catch-ups both write this, in partitions of their own.

    Attributes:
        number: Of the hold.
        next: First offset of the source not written there; `ENDED`, by the lane alone: it is no
            longer held.
    """

    word: ClassVar[str] = "held"

    number: int
    next: int

    @property
    def is_over(self) -> bool:
        """Whether it is no longer held."""
        return self.next < 0


Fact = (
    EpochRaised
    | InterestInForce
    | SourceAt
    | Halted
    | ErasBegun
    | Truncations
    | PartlyTaken
    | Sent
    | Accepted
    | Gap
    | Held
)
"""All facts that a lane records; closed."""


def target_fact(fact: Fact) -> Held | Sent | None:
    """Return a fact that says how far a target has got with a source; None for any other."""
    match fact:
        case Held() | Sent():
            return fact
        case (
            EpochRaised()
            | InterestInForce()
            | SourceAt()
            | Halted()
            | ErasBegun()
            | Truncations()
            | PartlyTaken()
            | Accepted()
            | Gap()
        ):
            return None
