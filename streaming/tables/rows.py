"""The small rows of one micro-batch as Python values; made by `streaming.tables.aggregates`."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

from streaming.tables.digest import Digest
from streaming.tables.filters import ALL

SUBJECT_BYTES_MAX = 250
"""No subject has more bytes. Spec: K7."""

NODES_MAX = 1_000
"""Nodes of a path that are kept: no mesh has a longer way, so its beginning is none either."""

NAME_MAX = 64
"""Characters of a name that are kept: no longer one is a name."""

CUT_OFF = "\N{HORIZONTAL ELLIPSIS}"
"""Stands for the rest of what a stranger wrote: no name has it."""


PLACES_KEPT = 65_536
"""Partitions that rows name and that are kept: each stands in many rows."""


class SourceKey(NamedTuple):
    """A source partition by topic id (hexadecimal) and number."""

    topic_id: str
    partition: int


class TopicPartition(NamedTuple):
    """A partition by topic name and number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """Return `mesh.tk3.in.g/0`, as findings and certificates name it."""
        return f"{self.topic}/{self.partition}"


class IngressRow(NamedTuple):
    """Messages published to one partition and block, of one subject or of a bundle of them.

    Attributes:
        place: The ingress partition.
        block: Block of offsets.
        subject: Of the messages; of a bundle one of them. None: refused by the mesh.
        digest: Of the identities.
        first: Lowest offset.
        last: Highest one.
        selected: Of a bundle, the filters that select its subjects; None: there is one subject.
        known: How many filters were known that might.
    """

    place: TopicPartition
    block: int
    subject: str | None
    digest: Digest
    first: int
    last: int
    selected: str | None = None
    known: int = ALL


class DeliveryRow(NamedTuple):
    """Messages of one source, block and path delivered to one endpoint partition.

    Attributes:
        place: Partition of the endpoint topic.
        source: Where the messages entered the mesh.
        generation: Of the source. Spec: K9.
        path: Nodes visited.
        block: Block of source offsets.
        digest: Of the identities.
        first: Lowest source offset.
        last: Highest one.
        record_first: Lowest offset in the endpoint topic.
        record_last: Highest one.
        late: Records whose source offset is not above all earlier ones of the batch.
        is_moved: Whether they come from another member of the queue, where their path begins.
        message_class: That they say, `guaranteed` or `direct`; the ingress tells which it is.
    """

    place: TopicPartition
    source: SourceKey
    generation: int
    path: tuple[str, ...]
    block: int
    digest: Digest
    first: int
    last: int
    record_first: int
    record_last: int
    late: int
    is_moved: bool = False
    message_class: str = "guaranteed"


@dataclass(frozen=True, slots=True)
class FramePlace:
    """Where a frame stands: offset in the outbox, and its chain. Spec: K11."""

    offset: int
    previous: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class BrokenLink:
    """A frame whose `previous` is not what the frame before it ended with."""

    frame: FramePlace
    expected: int


@dataclass(frozen=True, slots=True)
class FrameRow:
    """Frames of one batch on one outbox partition that have all of this in common.

    Attributes:
        place: Partition of the outbox.
        is_repair: Whether they carry the repair flag. Spec: K20.
        kind: `data`, or `gap` for an announced loss.
        zone: Zone crossed.
        path: Nodes visited, sender last.
        chain: The sender's source.
        source: Where the messages entered the mesh.
        generation: Of that source.
        frames: How many.
        messages: Messages in them.
        first: Lowest origin offset they speak for.
        last: Highest one.
        head: The first frame.
        tail: The last frame.
        broken: Breaks of the chain between two frames of the batch.
        late: Frames that speak for origin offsets not above all earlier ones.
        is_moved: Whether they are sent on by a member of a queue, where their path begins.
        era: Number of the topology by which the origin worked; None where they tell none, or
            passed nodes that count apart.
        most: Messages in the largest of them.
        node: Where they say that the messages entered the mesh.
    """

    place: TopicPartition
    is_repair: bool
    kind: str
    zone: str
    path: tuple[str, ...]
    chain: SourceKey
    source: SourceKey
    generation: int
    frames: int
    messages: int
    first: int
    last: int
    head: FramePlace
    tail: FramePlace
    broken: tuple[BrokenLink, ...]
    late: int
    is_moved: bool = False
    era: int | None = None
    most: int = 0
    node: str = ""

    def joined(self, more: FrameRow) -> FrameRow:
        """Return one row for these frames and later ones of the same link and source."""
        return replace(
            self,
            messages=self.messages + more.messages,
            first=min(self.first, more.first),
            last=max(self.last, more.last),
            tail=more.tail,
        )


@dataclass(frozen=True, slots=True)
class SmallRow:
    """One record of a topic with few records; no value: a tombstone."""

    place: TopicPartition
    offset: int
    key: str
    value: bytes | None
    at_ms: int


@dataclass(frozen=True, slots=True)
class StrayRow:
    """Records of a data topic that do not say what they are."""

    place: TopicPartition
    count: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class MinuteRow:
    """What was written to an outbox within a minute, or to a node's control topic in a scope.

    Attributes:
        place: Topic; all its partitions together.
        minute: Number of the minute from 1970 on, by the broker's clock.
        scope: Of changed interest, as text; None: these are frames.
        messages: Messages in frames, repairs left out; or changes.
        repairs: Messages sent again as repairs.
        size: Bytes of the frames, repairs left out.
    """

    place: TopicPartition
    minute: int
    scope: str | None
    messages: int
    repairs: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class UnwantedRow:
    """Direct deliveries of one source to one endpoint partition that nobody had asked for.

    Attributes:
        place: Partition of the endpoint topic.
        source: Where the messages entered the mesh.
        count: How many.
        first: Lowest source offset.
        last: Highest one.
        record_first: Lowest offset in the endpoint topic.
        record_last: Highest one.
        subjects: Of them, or as many as are spelled out.
    """

    place: TopicPartition
    source: SourceKey
    count: int
    first: int
    last: int
    record_first: int
    record_last: int
    subjects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NeedlessRow:
    """Frames of one source with a subject that nobody behind their link is known to ask for.

    Attributes:
        place: Partition of the outbox.
        source: Where the messages entered the mesh.
        generation: Of that source.
        era: Number of the topology by which the origin worked, if they tell one.
        subject: The subject.
        frames: How many; each has at least one message of it.
        first: Lowest origin offset they speak for.
        last: Highest one.
        newest: Lowest origin offset that the newest of them speaks for.
        record_first: Lowest offset in the outbox.
        record_last: Highest one.
    """

    place: TopicPartition
    source: SourceKey
    generation: int
    era: int | None
    subject: str
    frames: int
    first: int
    last: int
    newest: int
    record_first: int
    record_last: int


@dataclass(frozen=True, slots=True)
class Batch:
    """All small rows of one micro-batch; those of one topic partition in offset order."""

    ingress: Sequence[IngressRow] = ()
    deliveries: Sequence[DeliveryRow] = ()
    frames: Sequence[FrameRow] = ()
    small: Sequence[SmallRow] = ()
    ledgers: Sequence[SmallRow] = ()
    strays: Sequence[StrayRow] = field(default=())
    unwanted: Sequence[UnwantedRow] = ()
    minutes: Sequence[MinuteRow] = ()
    needless: Sequence[NeedlessRow] = ()

    def only(self, is_wanted: Callable[[str], bool]) -> Batch:
        """Return the rows of topics that are wanted."""
        tables = {one.name: getattr(self, one.name) for one in fields(self)}
        topics = {row.place.topic: None for rows in tables.values() for row in rows}
        others = {topic: None for topic in topics if not is_wanted(topic)}
        if not others:
            return self
        return Batch(
            **{
                name: [row for row in rows if row.place.topic not in others]
                for name, rows in tables.items()
            }
        )


Fields = Mapping[str, Any]


def read_batch(lines: Iterable[str]) -> Batch:
    """Return the batch that the JSON lines of `batch_rows` stand for, in a fixed order.

    Of those called `newest` the last of each key counts.
    """
    tables: dict[str, list[Fields]] = {}
    for told in json.loads(f"[{','.join(sorted(lines))}]"):  # at once: most of a line is its names
        tables.setdefault(told["of"], []).append(told)
    frames = sorted(map(_frame, tables.get("frame", ())), key=lambda row: row.head.offset)
    deliveries = map(_delivery, tables.get("delivery", ()))
    newest = sorted(map(_small, tables.get("newest", ())), key=_by_offset)
    small = [
        *map(_small, tables.get("small", ())),
        *{(one.place, one.key): one for one in newest}.values(),
    ]
    return Batch(
        ingress=[_ingress(one) for one in tables.get("ingress", ())],
        deliveries=sorted(deliveries, key=lambda row: row.record_first),
        frames=frames,
        small=sorted(small, key=_by_offset),
        ledgers=sorted(map(_small, tables.get("ledger", ())), key=_by_offset),
        strays=[_stray(one) for one in tables.get("stray", ())],
        unwanted=[_unwanted(one) for one in tables.get("unwanted", ())],
        minutes=[_minute(one) for one in tables.get("minute", ())],
        needless=[_needless(one) for one in tables.get("needless", ())],
    )


_DIGEST = itemgetter("n", "xor", "high", "low", "content")


def _by_offset(row: SmallRow) -> tuple[TopicPartition, int]:
    return row.place, row.offset


_PLACE = itemgetter("topic", "partition")


_named = lru_cache(maxsize=PLACES_KEPT)(TopicPartition)


def _place(fields: Fields) -> TopicPartition:
    return _named(*_PLACE(fields))


def _path(nodes: Sequence[str]) -> tuple[str, ...]:
    if len(nodes) <= NODES_MAX and max(map(len, nodes), default=0) <= NAME_MAX:
        return tuple(nodes)
    rest = (CUT_OFF,) if len(nodes) > NODES_MAX else ()
    return (*map(_name, nodes[:NODES_MAX]), *rest)


def _name(text: str) -> str:
    return text if len(text) <= NAME_MAX else f"{text[:NAME_MAX]}{CUT_OFF}"


def _digest(fields: Fields) -> Digest:
    return tuple.__new__(Digest, _DIGEST(fields))  # by all of its parts: no defaults to look for


def _ingress(fields: Fields) -> IngressRow:
    return IngressRow(
        _place(fields),
        fields["block"],
        fields.get("subject"),
        _digest(fields),
        fields["first"],
        fields["last"],
        fields.get("selected"),
        fields.get("known", ALL),
    )


_SOURCE = itemgetter("source_id", "source_partition")

_BOUNDS = itemgetter(
    "first", "last", "record_first", "record_last", "late", "is_moved", "message_class"
)


def _delivery(fields: Fields) -> DeliveryRow:
    return DeliveryRow(
        _place(fields),
        SourceKey(*_SOURCE(fields)),
        fields["generation"],
        _path(fields["path"]),
        fields["block"],
        _digest(fields),
        *_BOUNDS(fields),
    )


def _frame_place(fields: Fields) -> FramePlace:
    return FramePlace(
        fields["offset"], fields["chain_previous"], fields["chain_first"], fields["chain_last"]
    )


def _frame(fields: Fields) -> FrameRow:
    return FrameRow(
        place=_place(fields),
        is_repair=fields["is_repair"],
        kind=fields["kind"],
        zone=_name(fields["zone"]),
        path=_path(fields["path"]),
        chain=SourceKey(fields["chain_id"], fields["chain_partition"]),
        source=SourceKey(fields["source_id"], fields["source_partition"]),
        generation=fields["generation"],
        frames=fields["frames"],
        messages=fields["messages"],
        first=fields["first"],
        last=fields["last"],
        head=_frame_place(fields["head"]),
        tail=_frame_place(fields["tail"]),
        broken=tuple(BrokenLink(_frame_place(one), one["expected"]) for one in fields["broken"]),
        late=fields["late"],
        is_moved=fields["is_moved"],
        era=fields.get("era"),
        most=fields["most"],
        node=_name(fields["node"]),
    )


def _small(fields: Fields) -> SmallRow:
    value = fields.get("value")
    return SmallRow(
        _place(fields),
        fields["offset"],
        fields.get("key", ""),
        None if value is None else b64decode(value),
        fields.get("at_ms", -1),
    )


def _stray(fields: Fields) -> StrayRow:
    return StrayRow(_place(fields), fields["n"], fields["first"], fields["last"])


def _unwanted(fields: Fields) -> UnwantedRow:
    return UnwantedRow(
        place=_place(fields),
        source=SourceKey(fields["source_id"], fields["source_partition"]),
        count=fields["n"],
        first=fields["first"],
        last=fields["last"],
        record_first=fields["record_first"],
        record_last=fields["record_last"],
        subjects=tuple(fields["subjects"]),
    )


def _minute(fields: Fields) -> MinuteRow:
    return MinuteRow(
        place=TopicPartition(fields["topic"], -1),
        minute=fields["minute"],
        scope=fields.get("scope"),
        messages=fields["messages"],
        repairs=fields["repairs"],
        size=fields["size"],
    )


def _needless(fields: Fields) -> NeedlessRow:
    return NeedlessRow(
        place=_place(fields),
        source=SourceKey(fields["source_id"], fields["source_partition"]),
        generation=fields["generation"],
        era=fields.get("era"),
        subject=fields["subject"],
        frames=fields["n"],
        first=fields["first"],
        last=fields["last"],
        newest=fields["newest"],
        record_first=fields["record_first"],
        record_last=fields["record_last"],
    )
