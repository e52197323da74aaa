"""What Spark makes of a batch, made by Python alone, record by record: for many small meshes.

Hashes are others than Spark's: equal sets have equal digests here as there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from itertools import groupby
from typing import Any

from mesh.errors import DecodeError, UnknownVersionError
from mesh.model.frames import Delivery, FrameFlags, FrameHeader, MessageClass
from mesh.model.queues import MOVED_BYTES, MOVED_EXT, QUEUE_PREFIX
from mesh.model.record_headers import GAP_HEADER, MESH_HEADER, SUBJECT_HEADER
from mesh.wire.deliveries import decode_delivery
from mesh.wire.header import decode_header
from streaming.job.batches import BatchContext
from streaming.tables import aggregates, audited_keys
from streaming.tables.bundles import BETWEEN, Bundles
from streaming.tables.columns import NO_UTF8
from streaming.tables.digest import BLOCK_BITS, Digest
from streaming.tables.filters import ALL, LITERAL, Shape
from streaming.tables.rows import (
    SUBJECT_BYTES_MAX,
    SUBJECTS_MAX,
    BrokenLink,
    DeliveryRow,
    FramePlace,
    FrameRow,
    IngressRow,
    MicroBatch,
    MinuteRow,
    NeedlessRow,
    SmallRow,
    SourceKey,
    StrayRow,
    TopicPartition,
    UnwantedRow,
)
from streaming.tables.topics import (
    CONFIG,
    CONTROL,
    ENDPOINT,
    INGRESS,
    LEDGER,
    OUTBOX,
    SMALL_KINDS,
    place_of,
)
from tests.streaming.planted import Record

WORDS = {
    "control": re.compile(audited_keys.OF_NODES),  # the same keys count for both
    OUTBOX: re.compile(audited_keys.OF_LINKS),  # the same
    "progress": re.compile(audited_keys.OF_LANES),  # the same
}
"""Keys under which something counts, by the kind of topic."""
OF_THE_TOPOLOGY = audited_keys.OF_THE_TOPOLOGY  # the same


def java(pattern: str) -> re.Pattern[str]:
    """Return a regular expression that was written for Java."""
    return re.compile(pattern.replace(r"\z", r"\Z"))


def hashed(*parts: object) -> int:
    """Return 64 bits, with a sign, that stand for values."""
    found = blake2b(repr(parts).encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return int.from_bytes(found, signed=True)


@dataclass(frozen=True)
class Seen:
    """A record, and where it stands.

    Attributes:
        place, offset: Where.
        record: It.
        prefix: Start of every topic name.
    """

    place: TopicPartition
    offset: int
    record: Record
    prefix: str

    @cached_property
    def kind(self) -> str:
        return place_of(self.prefix, self.place.topic).kind

    @cached_property
    def letter(self) -> str:
        return self.place.topic.rpartition(".")[2]

    @cached_property
    def is_announcement(self) -> bool:
        headers = self.record.headers
        return self.kind == ENDPOINT and len(headers) == 1 and headers[0][0] == GAP_HEADER

    @cached_property
    def header(self) -> FrameHeader | None:
        if self.kind != OUTBOX or self.letter == CONTROL or self.record.key is None:
            return None
        try:
            return decode_header(self.record.key)
        except (DecodeError, UnknownVersionError):
            return None

    @cached_property
    def delivery(self) -> Delivery | None:
        headers = self.record.headers
        if self.kind != ENDPOINT or not headers or headers[-1][0] != MESH_HEADER:
            return None
        try:
            told = decode_delivery(headers[-1][1] or b"")
        except (DecodeError, UnknownVersionError):
            return None
        return told if min(told.source.partition, told.generation, told.offset) >= 0 else None

    @property
    def moves(self) -> int:
        """Return how often a delivery was moved."""
        moved = self.delivery.ext.get(MOVED_EXT, b"") if self.delivery else b""
        return int.from_bytes(moved) if len(moved) <= MOVED_BYTES else 0

    @cached_property
    def is_odd(self) -> bool:
        return self.kind == INGRESS and any(NO_UTF8 in name for name, _ in self.record.headers)

    @property
    def size(self) -> int:
        return len(self.record.key or b"") + len(self.record.value or b"")

    def subject(self, message_bytes_max: int) -> str | None:
        """Return the subject of what was published, or that a delivery tells."""
        headers = self.record.headers
        if self.kind == ENDPOINT:
            told = headers[-2:-1]
            is_told = bool(told) and told[0][0] == SUBJECT_HEADER and told[0][1] is not None
            return (told[0][1] or b"").decode(errors="replace") if is_told else None
        named = [value for name, value in headers if name == SUBJECT_HEADER]
        all_headers = sum(len(name.encode()) + len(value or b"") for name, value in headers)
        if len(named) != 1 or named[0] is None or len(named[0]) > SUBJECT_BYTES_MAX:
            return None
        if self.size + all_headers > message_bytes_max:
            return None
        try:
            return named[0].decode()
        except UnicodeDecodeError:
            return None

    @cached_property
    def content(self) -> int:
        """Return what stands for what a client wrote."""
        record, headers = self.record, self.record.headers
        if self.kind == INGRESS:
            reserved = f"{MESH_HEADER}-"
            own = [
                one for one in headers if one[0] != MESH_HEADER and not one[0].startswith(reserved)
            ]
            told = next((value for name, value in headers if name == SUBJECT_HEADER), None)
        else:
            own = list(headers[:-2])
            told = next((value for name, value in headers[-2:-1] if name == SUBJECT_HEADER), None)
        return hashed(told, record.key, record.value, tuple(own), record.at_ms)

    @property
    def key(self) -> str:
        return (self.record.key or b"").decode(errors="replace")


def digest_of(partition: int, copies: Iterable[tuple[int, int]]) -> Digest:
    """Return the digest of offsets of a partition, each with what stands for its content."""
    total = [0, 0, 0, 0, 0]
    for offset, content in copies:
        identity = hashed(partition, offset)
        total[0] += 1
        total[1] ^= identity
        total[2] += (identity & 0xFFFFFFFFFFFFFFFF) >> 32
        total[3] += identity & 0xFFFFFFFF
        total[4] ^= hashed(identity, content)
    return Digest(*total)


def is_moved(header: FrameHeader) -> bool:
    """Return whether a member of a queue sends on what is in a frame."""
    path, origin = header.hop.path, header.origin
    return bool(path) and path[0] != origin.node and is_addressed(header)


def is_addressed(header: FrameHeader) -> bool:
    """Return whether members of queues alone shall get what is in a frame."""
    return all(one.startswith(QUEUE_PREFIX) for one in header.origin.subjects)


def source_of(told: Any) -> SourceKey:
    return SourceKey(told.source.topic_id.hex(), told.source.partition)


@dataclass
class Rows:
    """The small rows of a batch.

    Attributes:
        records: The batch; of a partition in order.
        known: What it is held against.
    """

    records: Sequence[Seen]
    known: BatchContext
    of_kind: dict[str, list[Seen]] = field(init=False)

    def __post_init__(self) -> None:
        self.of_kind = {}
        for one in self.records:
            self.of_kind.setdefault(one.kind, []).append(one)

    def batch(self) -> MicroBatch:
        return MicroBatch(
            ingress=[*self.ingress()],
            deliveries=sorted(self.deliveries(), key=lambda row: row.record_first),
            frames=sorted(self.frames(), key=lambda row: row.head.offset),
            small=sorted(self.small(), key=lambda row: (row.place, row.offset)),
            ledgers=sorted(self.ledgers(), key=lambda row: (row.place, row.offset)),
            strays=[*self.strays()],
            unwanted=[*self.unwanted()],
            minutes=[*self.minutes()],
            needless=[*self.needless()] if self.known.asked else [],
        )

    @property
    def bytes_max(self) -> int:
        return self.known.topology.max_message_bytes

    def ingress(self) -> Iterator[IngressRow]:
        bundles = self.known.bundles
        rows: dict[tuple[Any, ...], list[Seen]] = {}
        for one in self.of_kind.get(INGRESS, ()):
            subject = one.subject(self.bytes_max)
            of = subject if bundles is None else selected(bundles, subject)
            rows.setdefault((one.place, one.offset >> BLOCK_BITS, of, one.is_odd), []).append(one)
        for (place, block, of, is_odd), found in rows.items():
            subject, bundle = (of, None) if bundles is None else (None, of)
            known = ALL if bundles is None else bundles.known
            told = bundle if not is_odd or of is None else ""
            yield IngressRow(
                place,
                block,
                subject,
                digest_of(place.partition, ((one.offset, one.content) for one in found)),
                found[0].offset,
                found[-1].offset,
                told,
                0 if is_odd else known,
            )

    def _delivered(self) -> Iterator[tuple[Seen, Delivery]]:
        for one in self.of_kind.get(ENDPOINT, ()):
            if one.delivery is not None:
                yield one, one.delivery

    def deliveries(self) -> Iterator[DeliveryRow]:
        rows: dict[tuple[Any, ...], list[tuple[Seen, int, bool]]] = {}
        most: dict[tuple[Any, ...], int] = {}
        for one, told in self._delivered():
            way = (one.place, source_of(told), told.generation)
            is_late = told.offset <= most.get(way, -1)
            most[way] = max(most.get(way, -1), told.offset)
            key = (*way, told.path, one.moves > 0, str(told.message_class))
            rows.setdefault((*key, told.offset >> BLOCK_BITS), []).append(
                (one, told.offset, is_late)
            )
        for (place, source, generation, path, moved, of, block), found in rows.items():
            offsets = [offset for _, offset, _ in found]
            yield DeliveryRow(
                place=place,
                source=source,
                generation=generation,
                path=path,
                block=block,
                digest=digest_of(source.partition, ((n, one.content) for one, n, _ in found)),
                first=min(offsets),
                last=max(offsets),
                record_first=found[0][0].offset,
                record_last=found[-1][0].offset,
                late=sum(is_late for *_, is_late in found),
                is_moved=moved,
                message_class=of,
            )

    def frames(self) -> Iterator[FrameRow]:
        ends: dict[tuple[Any, ...], int] = {}
        most: dict[tuple[Any, ...], int] = {}
        rows: dict[tuple[Any, ...], list[tuple[FramePlace, FrameHeader, int | None, bool]]] = {}
        for one in self.of_kind.get(OUTBOX, ()):
            if (header := one.header) is None:
                continue
            origin, hop = header.origin, header.hop
            is_repair = FrameFlags.REPAIR in header.flags
            outbox = (one.place, is_repair)
            chain = (*outbox, source_of(hop.chain))
            source = (*outbox, source_of(origin), origin.generation, is_moved(header))
            place = FramePlace(one.offset, hop.chain.previous, hop.chain.first, hop.chain.last)
            expected = ends.get(chain)
            is_late = source in most and origin.first <= most[source]
            ends[chain] = max(ends.get(chain, hop.chain.last), hop.chain.last)
            most[source] = max(most.get(source, origin.last), origin.last)
            era = origin.eras[0].number if len(origin.eras) == 1 else None
            key = (*source, str(header.kind), hop.zone, hop.path, origin.node, era, chain[-1])
            told = (place, header, expected if expected != place.previous else None, is_late)
            rows.setdefault(key, []).append(told)
        for key, found in rows.items():
            place, is_repair, source, generation, moved, kind, zone, path, node, era, chain = key
            yield FrameRow(
                place=place,
                is_repair=is_repair,
                kind=kind,
                zone=zone,
                path=path,
                chain=chain,
                source=source,
                generation=generation,
                frames=len(found),
                messages=sum(header.origin.count for _, header, *_ in found),
                first=min(header.origin.first for _, header, *_ in found),
                last=max(header.origin.last for _, header, *_ in found),
                head=found[0][0],
                tail=found[-1][0],
                broken=tuple(
                    BrokenLink(place, expected)
                    for place, _, expected, _ in found
                    if expected is not None
                ),
                late=sum(is_late for *_, is_late in found),
                is_moved=moved,
                era=era,
                most=max(header.origin.count for _, header, *_ in found),
                node=node,
            )

    def small(self) -> Iterator[SmallRow]:
        newest: dict[tuple[Any, ...], SmallRow] = {}
        for one in self.records:
            is_control = one.kind == OUTBOX and one.letter == CONTROL
            if one.kind == LEDGER or not (one.kind in SMALL_KINDS or is_control):
                continue
            is_kept = one.kind == "clients" or (one.kind == CONFIG and one.key in OF_THE_TOPOLOGY)
            words = WORDS.get(one.kind)
            is_wanted = is_kept or (words is not None and words.search(one.key))
            if one.record.key is None or not is_wanted:
                continue
            row = SmallRow(one.place, one.offset, one.key, one.record.value, one.record.at_ms)
            newest[one.place, one.key, one.offset if is_kept else -1] = row
        yield from newest.values()

    def ledgers(self) -> Iterator[SmallRow]:
        for one in self.of_kind.get(LEDGER, ()):
            yield SmallRow(one.place, one.offset, "", one.record.value, one.record.at_ms)

    def strays(self) -> Iterator[StrayRow]:
        found: dict[TopicPartition, list[int]] = {}
        for one in self.of_kind.get(ENDPOINT, ()):
            if one.delivery is None and not one.is_announcement:
                found.setdefault(one.place, []).append(one.offset)
        for one in self.of_kind.get(OUTBOX, ()):
            if one.letter != CONTROL and one.header is None:
                found.setdefault(one.place, []).append(one.offset)
        for place, offsets in found.items():
            yield StrayRow(place, len(offsets), min(offsets), max(offsets))

    def unwanted(self) -> Iterator[UnwantedRow]:
        rows: dict[tuple[Any, ...], list[tuple[Seen, int]]] = {}
        for one, told in self._delivered():
            pattern = self.known.wanted.get(one.place.topic)
            subject = one.subject(self.bytes_max)
            is_asked = subject is not None and pattern is not None and java(pattern).search(subject)
            if told.message_class is MessageClass.DIRECT and not is_asked:
                rows.setdefault((one.place, source_of(told)), []).append((one, told.offset))
        for (place, source), found in rows.items():
            offsets = [offset for _, offset in found]
            told_subjects = {one.subject(self.bytes_max) or "" for one, _ in found}
            yield UnwantedRow(
                place,
                source,
                len(found),
                min(offsets),
                max(offsets),
                found[0][0].offset,
                found[-1][0].offset,
                tuple(sorted(told_subjects)[:SUBJECTS_MAX]),
            )

    def needless(self) -> Iterator[NeedlessRow]:
        rows: dict[tuple[Any, ...], list[tuple[Seen, FrameHeader]]] = {}
        for one in self.of_kind.get(OUTBOX, ()):
            header = one.header
            pattern = self.known.asked.get(one.place.topic[:-2])
            if header is None or pattern is None or len(header.origin.eras) > 1:
                continue
            if str(header.kind) != "data" or is_moved(header):
                continue
            origin = header.origin
            era = origin.eras[0].number if origin.eras else None
            for subject in origin.subjects:
                if not subject.startswith("$") and not java(pattern).search(subject):
                    key = (one.place, source_of(origin), origin.generation, era, subject)
                    rows.setdefault(key, []).append((one, header))
        for key, found in rows.items():
            firsts = [header.origin.first for _, header in found]
            lasts = [header.origin.last for _, header in found]
            bounds = (min(firsts), max(lasts), max(firsts), found[0][0].offset, found[-1][0].offset)
            yield NeedlessRow(*key, len(found), *bounds)

    def minutes(self) -> Iterator[MinuteRow]:
        def key_of(one: Seen) -> tuple[str, int]:
            return one.place.topic, one.record.at_ms // aggregates.MINUTE_MS

        told = [one for one in self.of_kind.get(OUTBOX, ()) if one.header is not None]
        for (topic, minute), group in groupby(sorted(told, key=key_of), key_of):
            counts = {True: 0, False: 0}
            size = 0
            for one in group:
                assert one.header is not None
                is_repair = FrameFlags.REPAIR in one.header.flags
                counts[is_repair] += one.header.origin.count
                size += 0 if is_repair else one.size
            yield MinuteRow(
                TopicPartition(topic, -1), minute, None, counts[False], counts[True], size
            )


def selected(bundles: Bundles, subject: str | None) -> str | None:
    """Return the filters that select a subject, as a bundle names them."""
    if subject is None:
        return None
    levels = subject.split("/")
    found = []
    for shape, filters in bundles.filters.items():
        text = _as_filter(shape, subject, levels)
        if text in filters:
            found.append(text)
    return BETWEEN.join(found)


def _as_filter(shape: Shape, subject: str, levels: Sequence[str]) -> str:
    if shape == LITERAL:
        return subject
    count = len(shape.stars)
    if len(levels) <= count if shape.is_open else len(levels) != count:
        return ""
    named = ["*" if star else level for star, level in zip(shape.stars, levels, strict=False)]
    return "/".join([*named, *([">"] if shape.is_open else [])])


def plain_rows(
    records: Sequence[Seen], known: BatchContext, *_: object, **__: object
) -> MicroBatch:
    """Return the small rows of a batch, as `streaming.job.batches.rows_of` does."""
    return Rows(records, known).batch()
