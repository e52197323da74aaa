"""Values of the data path: the contents of a frame and a delivery. `mesh.wire` makes the bytes.

Spec: kafka.md 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntFlag, StrEnum

NONE_OFFSET = -1
"""Stands for "no offset yet" where the wire has a plain long."""


class MessageClass(StrEnum):
    """How a message is delivered; it keeps its class on every hop. Spec: DESIGN 6."""

    GUARANTEED = "guaranteed"
    DIRECT = "direct"

    @property
    def letter(self) -> str:
        """Return the letter that ends the names of topics of this class."""
        return self.value[0]


class FrameKind(StrEnum):
    """What a link record is. Spec: K10."""

    DATA = "data"
    GAP = "gap"


class FrameFlags(IntFlag):
    """Bits of a frame header. Spec: K10, K20."""

    NONE = 0
    REPAIR = 1


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """A partition by topic name."""

    topic: str
    partition: int

    @classmethod
    def all_of(cls, topic: str, count: int) -> list[TopicPartition]:
        """Return the partitions of a topic that has so many."""
        return [cls(topic, number) for number in range(count)]

    def __str__(self) -> str:
        """Return `topic[partition]`, as people see it everywhere."""
        return f"{self.topic}[{self.partition}]"


@dataclass(frozen=True, slots=True)
class SourcePartition:
    """A partition of a topic by intrinsic identity.

    Attributes:
        topic_id: The 16 bytes of the broker's topic id.
        partition: Partition number.
    """

    topic_id: bytes
    partition: int


_GENERATION = 1 << 48
"""Number of offsets that a generation has room for."""

GENERATION_MAX = (1 << 15) - 1
"""Positions of later ones would not fit into 64 bits."""


def position_in_chain(generation: int, offset: int) -> int:
    """Return the chain position of a source's offset: no position comes twice. Spec: K11.

    Offsets do repeat if a log has lost its tail; then they belong to the next generation. As long
    as that has not happened, positions are offsets.
    """
    return generation * _GENERATION + offset


def generation_and_offset(position: int) -> tuple[int, int]:
    """Return the two parts of a position in a chain; -1, before the first, has none."""
    return divmod(position, _GENERATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The position of a frame in its sender's own source. Spec: K11.

    Attributes:
        source: Partition of the sender's source (its ingress, or the outbox it read).
        previous: Position in it of what was previously sent on the same outbox partition, or -1.
        first: First position that this frame covers.
        last: Last one.
    """

    source: SourcePartition
    previous: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, order=True)
class Era:
    """The topology that a source worked by when it took a message. Spec: K10.

    Nodes configured apart count their changes separately, so a bare number would be compared with
    another mesh's.

    Attributes:
        domain: Digest of the first topology of a series of changes, 8 bytes.
        number: Of the topology in that series; 0 is that of the files.
    """

    domain: bytes
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where the messages of a frame entered the mesh, and under which topology. Spec: K9, K10.

    All of it travels untouched, except that a node of another domain adds an era of its own.

    Attributes:
        node: Name of the origin node.
        source: Its ingress partition.
        generation: 0; rises only when an operator accepts a truncation.
        first: First ingress offset of the range; offset deltas count from here.
        last: Last one.
        count: Messages in the frame's value.
        subjects: Subject table.
        eras: The topology under which the origin worked, one entry per domain on the way.
    """

    node: str
    source: SourcePartition
    generation: int
    first: int
    last: int
    count: int
    subjects: Sequence[str]
    eras: tuple[Era, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """The part of a frame header that every hop writes itself. Spec: K10.

    Attributes:
        zone: Zone of the link crossed.
        hops: Hops in a row inside that zone, this one included.
        join_hops: Joins crossed in a row.
        crossed_external: Whether an external link has been crossed.
        lane_epoch: Epoch of the sending lane. Spec: K18.
        path: Nodes visited, origin first, sender last.
        chain: Place in the sender's source.
    """

    zone: str
    hops: int
    join_hops: int
    crossed_external: bool
    lane_epoch: int
    path: tuple[str, ...]
    chain: Chain


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameHeader:
    """Kafka key of a link record. Spec: K10."""

    hop: Hop
    origin: Origin
    kind: FrameKind = FrameKind.DATA
    flags: FrameFlags = FrameFlags.NONE
    ext: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message inside a frame.

    Attributes:
        offset: Ingress offset at the origin.
        subject: Mesh address.
        timestamp: The client's create time, ms since 1970, or -1.
        key: Record key, or None.
        headers: Client headers in order; names may repeat and values be None.
        payload: Record value; None is a tombstone.
        ext: Additions of minor versions.
    """

    offset: int
    subject: str
    timestamp: int
    key: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    payload: bytes | None
    ext: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The header `mesh` of a delivered record: identity, path, class. Spec: K8, K9."""

    message_class: MessageClass
    path: tuple[str, ...]
    source: SourcePartition
    generation: int
    offset: int
    ext: Mapping[str, bytes] = field(default_factory=dict)
