"""The small rows of one micro-batch as Python values; made by `streaming.tables.aggregates`."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache, partial
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from streaming.tables.digest import Digest
from streaming.tables.filters import ALL

SUBJECT_BYTES_MAX = 250
"""No subject has more bytes. Spec: K7."""

SUBJECTS_MAX = 20
"""Subjects that one row of unwanted deliveries of a batch spells out."""

NODES_MAX = 1_000
"""Nodes of a path that are kept: no mesh has a longer way, so its beginning is none either."""

NAME_MAX = 64
"""Characters of a name that are kept: no longer one is a name."""

CUT_OFF = "\N{HORIZONTAL ELLIPSIS}"
"""Stands for the rest of what a stranger wrote: no name has it."""


MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS

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
        subject: Of the messages; None: they are of a bundle, or were refused by the mesh.
        digest: Of the identities.
        first: Lowest offset.
        last: Highest one.
        selected: Of a bundle, the filters that select its subjects; None: it is none.
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

    def is_like(self, other: DeliveryRow) -> bool:
        """Return whether both are deliveries of one block that came the same way.

        Then it makes no difference which of them is joined to the other.
        """
        return self.joined(other) == other.joined(self)

    def joined(self, more: DeliveryRow) -> DeliveryRow:
        """Return one row for these deliveries and others that are like them."""
        return self._replace(
            digest=self.digest + more.digest,
            first=min(self.first, more.first),
            last=max(self.last, more.last),
            record_first=min(self.record_first, more.record_first),
            record_last=max(self.record_last, more.record_last),
            late=self.late + more.late,
        )


@dataclass(frozen=True, slots=True)
class FramePlace:
    """Where a frame stands. Spec: K11.

    Attributes:
        offset: In the outbox.
        previous, first, last: Its chain: positions in the sender's source.
    """

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
    """One record of a topic with few records.

    Attributes:
        place: Where it is.
        offset: Of the record.
        key: Of the record, as text.
        value: Of the record; None: a tombstone.
        at_ms: Its time stamp, ms since 1970.
    """

    place: TopicPartition
    offset: int
    key: str
    value: bytes | None
    at_ms: int


@dataclass(frozen=True, slots=True)
class StrayRow:
    """Records of a data topic that do not say what they are.

    Attributes:
        place: Where they are.
        count: How many.
        first: Lowest offset.
        last: Highest one.
    """

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
        subjects: Of them, empty for none, or as many as are spelled out.
    """

    place: TopicPartition
    source: SourceKey
    count: int
    first: int
    last: int
    record_first: int
    record_last: int
    subjects: tuple[str, ...]

    def joined(self, more: UnwantedRow) -> UnwantedRow:
        """Return one row for these deliveries and others of the same source and partition."""
        return replace(
            self,
            count=self.count + more.count,
            first=min(self.first, more.first),
            last=max(self.last, more.last),
            record_first=min(self.record_first, more.record_first),
            record_last=max(self.record_last, more.record_last),
            subjects=tuple(dict.fromkeys((*self.subjects, *more.subjects)))[:SUBJECTS_MAX],
        )


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

    def joined(self, more: NeedlessRow) -> NeedlessRow:
        """Return one row for these frames and others of the same link, source and subject."""
        return replace(
            self,
            frames=self.frames + more.frames,
            first=min(self.first, more.first),
            last=max(self.last, more.last),
            newest=max(self.newest, more.newest),
            record_first=min(self.record_first, more.record_first),
            record_last=max(self.record_last, more.record_last),
        )


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """All small rows of one micro-batch; those of one topic partition in offset order.

    Attributes:
        ingress: What was published.
        deliveries: What endpoints got.
        frames: What crossed links.
        small: Records of small topics that audits read, ledgers apart.
        ledgers: What lanes have read, and from where on they knew of subscriptions.
        strays: What is neither a delivery nor a frame.
        unwanted: Direct deliveries that nobody had asked for, as far as is known.
        minutes: What was written to outboxes and of interest, by the minute.
        needless: Frames that nobody behind their link is known to ask for.
    """

    ingress: Sequence[IngressRow] = ()
    deliveries: Sequence[DeliveryRow] = ()
    frames: Sequence[FrameRow] = ()
    small: Sequence[SmallRow] = ()
    ledgers: Sequence[SmallRow] = ()
    strays: Sequence[StrayRow] = field(default=())
    unwanted: Sequence[UnwantedRow] = ()
    minutes: Sequence[MinuteRow] = ()
    needless: Sequence[NeedlessRow] = ()

    def only(self, is_wanted: Callable[[str], bool]) -> MicroBatch:
        """Return the rows of topics that are wanted."""
        tables = {one.name: getattr(self, one.name) for one in fields(self)}
        topics = {row.place.topic: None for rows in tables.values() for row in rows}
        others = {topic: None for topic in topics if not is_wanted(topic)}
        if not others:
            return self
        return MicroBatch(
            **{
                name: [row for row in rows if row.place.topic not in others]
                for name, rows in tables.items()
            }
        )


Fields = Mapping[str, Any]

Row = TypeVar("Row", bound=tuple[Any, ...])


def read_batch(lines: Iterable[str]) -> MicroBatch:
    """Return the batch that the JSON lines of `batch_rows` stand for, in a fixed order.

    Of those called `newest` the last of each key counts.
    """
    tables: dict[str, list[Fields]] = {}
    for told in json.loads(f"[{','.join(sorted(lines))}]"):  # at once: most of a line is its names
        tables.setdefault(told["of"], []).append(told)
    frames = sorted(map(_frame, tables.get("frame", ())), key=lambda row: row.head.offset)
    deliveries = chain.from_iterable(map(_delivery, tables.get("delivery", ())))
    newest = sorted(map(_small, tables.get("newest", ())), key=_by_offset)
    small = [
        *map(_small, tables.get("small", ())),
        *{(one.place, one.key): one for one in newest}.values(),
    ]
    return MicroBatch(
        ingress=[*chain.from_iterable(map(_ingress, tables.get("ingress", ())))],
        deliveries=sorted(deliveries, key=lambda row: row.record_first),
        frames=frames,
        small=sorted(small, key=_by_offset),
        ledgers=sorted(map(_small, tables.get("ledger", ())), key=_by_offset),
        strays=[_stray(one) for one in tables.get("stray", ())],
        unwanted=[unwanted_of(one) for one in tables.get("unwanted", ())],
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


def _digests(fields: Fields) -> list[Digest]:
    return [*in_columns(Digest, 0, *_DIGEST(fields))]


def in_columns(row: type[Row], count: int, *columns: Any) -> Iterator[Row]:
    """Return named tuples by columns of all parts: a list of each, or what all have in common.

    Nothing looks at each of them, for they are many: no defaults are filled in.
    """
    lists = (one if isinstance(one, list) else repeat(one, count) for one in columns)
    return map(partial(tuple.__new__, row), zip(*lists, strict=True))


def _ingress(fields: Fields) -> Iterator[IngressRow]:
    known = [ALL if one is None else one for one in fields["known"]]
    place, digests = _place(fields), _digests(fields)
    told = place, fields["block"], fields["subject"], digests, fields["first"], fields["last"]
    return in_columns(IngressRow, len(known), *told, fields["selected"], known)


_SOURCE = itemgetter("source_id", "source_partition")

_BOUNDS = itemgetter(
    "first", "last", "record_first", "record_last", "late", "is_moved", "message_class"
)


def _delivery(fields: Fields) -> Iterator[DeliveryRow]:
    digests, blocks = _digests(fields), fields["block"]
    way = _place(fields), SourceKey(*_SOURCE(fields)), fields["generation"], _path(fields["path"])
    return in_columns(DeliveryRow, len(blocks), *way, blocks, digests, *_BOUNDS(fields))


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


def unwanted_of(fields: Fields) -> UnwantedRow:
    """Return a row of unwanted deliveries, as Spark gives it back."""
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
