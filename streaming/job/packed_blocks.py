"""One block as a snapshot holds it: column by column, for endpoints are many and alike.

What one endpoint got, and what was certified of it, says nearly the same as what others got. So of
each part there is a column, with one value where all have the same, and a digest is written once.
"""

from __future__ import annotations

import json
import struct
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, NamedTuple

from streaming.audits.block import Block, Certificate, Receipt, SubjectTally
from streaming.audits.interest import EndpointKey
from streaming.audits.tickets import Ticket
from streaming.job.plain import from_plain, to_plain
from streaming.tables.digest import BLOCK_OFFSETS, Digest
from streaming.tables.rows import TopicPartition

LINES = 2
"""Lines that a block takes in a snapshot: all but its digests, then these, which compress least."""

LEVEL = 1
"""Level of compression: 6 would take twice as long and save a fortieth."""

_GZIP = 16 + zlib.MAX_WBITS
"""Has zlib write what gzip reads."""

_WORD = 8
"""Bytes of each part of a digest."""

_TALLY = attrgetter("digest", "first", "last", "known")
_RECEIPT = attrgetter("digest", "records", "generations", "unmoved", "is_cut")
_CERTIFICATE = attrgetter(
    *("digest", "first", "last", "expected", "delivered"),
    *("equal", "partial", "sure", "first_ms", "last_ms"),
)


class BlockKey(NamedTuple):
    """Which block."""

    place: TopicPartition
    number: int

    @property
    def begin(self) -> int:
        """Return its first offset."""
        return self.number * BLOCK_OFFSETS


class BlockText(NamedTuple):
    """What a block holds, as text: to be written again when something else of it has changed.

    Attributes:
        block, stamp: The block, and its stamp: as long as that is the same, so is what it holds.
        receipts: What was delivered.
        subjects: What was published.
        digests: All that these name, each with its number.
        text: The same as text.
    """

    block: Block
    stamp: int
    receipts: str
    subjects: str
    digests: Mapping[Digest, int]
    text: str

    @classmethod
    def of(cls, begin: int, block: Block) -> BlockText:
        """Return what a block with this first offset holds."""
        writer = _Writer(begin)
        told = json_of(writer.receipts(block)), json_of(writer.subjects(block))
        return cls(block, block.stamp, *told, writer.digests, _text_of([*writer.digests]))


def packed_block(key: BlockKey, block: Block, held: BlockText | None) -> tuple[bytes, BlockText]:
    """Return a block as a snapshot holds it, and what it holds, for the next time.

    Args:
        key: Which block.
        block: The block.
        held: What it held, if that is known.
    """
    if held is None or held.block is not block or held.stamp != block.stamp:
        held = BlockText.of(key.begin, block)
    writer = _Writer(key.begin, dict(held.digests))
    columns = held.receipts, json_of(writer.issued(block)), held.subjects
    first = json_of([*key.place, key.number]), json_of(to_plain(_rest_of(block))), *columns
    is_same = len(writer.digests) == len(held.digests)
    text = held.text if is_same else _text_of([*writer.digests])
    return lines(f"[{','.join(first)}]", f'"{text}"'), held


def _rest_of(block: Block) -> Block:
    """Return what is not told column by column, as another process can go on with it.

    Its clock is another one. And it asks again where logs end that tickets wait for: so it waits
    for more than it must, and what is kept does not grow with partitions for each block.
    """
    tickets = [*map(unasked, block.tickets)]
    told = replace(block, subjects={}, receipts={}, issued={}, tickets=tickets)
    return replace(told, changed_s=0.0, judged_s=0.0)


def unasked(ticket: Ticket) -> Ticket:
    """Return a ticket that does not know where logs end."""
    ways = ticket.steps, ticket.ahead
    steps, ahead = ([replace(step, awaits=None) for step in way] for way in ways)
    return replace(ticket, steps=steps, ahead=ahead)


def block_of(told: Sequence[Any]) -> tuple[BlockKey, Block]:
    """Return the block that `packed_block` made lines of."""
    ((topic, partition, number), rest, receipts, issued, subjects), digests = told
    key = BlockKey(TopicPartition(topic, partition), number)
    block: Block = from_plain(Block, rest)
    reader = _Reader(key, _digests_of(digests))
    block.receipts.update(reader.receipts(*receipts))
    block.issued.update(reader.issued([*block.receipts], *issued))
    block.subjects.update(reader.subjects(*subjects))
    return key, block


def json_of(plain: object) -> str:
    """Return what JSON can hold, as text."""
    return json.dumps(plain, separators=(",", ":"))


def lines(*texts: str) -> bytes:
    """Return lines of a snapshot, which make one whole; each is made small by signs of its own."""
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP)
    parts: list[bytes] = []
    for text in texts:
        parts += (packer.compress(f"{text}\n".encode()), packer.flush(zlib.Z_PARTIAL_FLUSH))
    return b"".join((*parts, packer.flush()))


@dataclass(slots=True)
class _Writer:
    """Makes columns of the parts of a block.

    Attributes:
        begin: First offset of the block: others are told from there.
        digests: All that were met, each with its number.
    """

    begin: int
    digests: dict[Digest, int] = field(default_factory=dict)

    def receipts(self, block: Block) -> list[Any]:
        """Return the receipts by endpoint."""
        told = _columns(map(_RECEIPT, block.receipts.values()), 5)
        digests, records, generations, unmoved, is_cut = told
        ranges = [(at, *span) for one in records for at, span in one.items()]
        partitions, first, last = _columns(ranges, 3)
        moved = [one.count - own for one, own in zip(digests, unmoved, strict=True)]
        return [
            *map(_folded, _columns(block.receipts, 2)),
            _counted(self._numbered(digests)),
            _folded([*map(len, records)]),
            *(_folded(partitions), first, _less(last, first)),
            _folded([*map(len, generations)]),
            _folded([number for one in generations for number in one]),
            *(_folded(moved), _folded(is_cut)),
        ]

    def issued(self, block: Block) -> list[Any]:
        """Return the certificates; who has one mostly has got something, too."""
        told = _columns(map(_CERTIFICATE, block.issued.values()), 10)
        digests, first, last, expected, delivered, *more = told
        numbers = {endpoint: number for number, endpoint in enumerate(block.receipts)}
        others = [one for one in block.issued if one not in numbers]
        numbers |= {one: len(numbers) + number for number, one in enumerate(others)}
        who = [numbers[one] for one in block.issued]
        counts = [one.count for one in digests]
        found = self._numbered(digests)
        return [
            *_columns(others, 2),
            _counted(who),
            [] if found == who else found,
            *(_folded(_less(one, [self.begin] * len(one))) for one in (first, last)),
            *(_folded(_less(one, counts)) for one in (expected, delivered)),
            *map(_folded, more),
        ]

    def subjects(self, block: Block) -> list[Any]:
        """Return what was published."""
        digests, first, last, known = _columns(map(_TALLY, block.subjects.values()), 4)
        begins = [self.begin] * len(first)
        return [
            [*block.subjects],
            self._numbered(digests),
            *(_folded(_less(first, begins)), _folded(_less(last, begins)), _folded(known)),
        ]

    def _numbered(self, digests: Sequence[Digest]) -> list[int]:
        known = self.digests
        return [known.setdefault(one, len(known)) for one in digests]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Makes parts of a block of their columns.

    Attributes:
        key: Which block.
        digests: By number.
    """

    key: BlockKey
    digests: Sequence[Digest]

    def receipts(self, *columns: list[Any]) -> Iterator[tuple[EndpointKey, Receipt]]:
        """Yield what `_Writer.receipts` made columns of."""
        nodes, names, numbers, counts, partitions, first, spans, *told = columns
        generations, which, moved, is_cut = told
        numbers = _listed(numbers)
        count, ranged = len(numbers), len(first)
        ranges = zip(_unfolded(partitions, ranged), first, spans, strict=True)
        numbered = iter(_unfolded(which, sum(_unfolded(generations, count))))
        whose = zip(_unfolded(nodes, count), _unfolded(names, count), strict=True)
        parts = (_unfolded(one, count) for one in (counts, generations, moved, is_cut))
        for endpoint, number, records, some, others, cut in zip(
            whose, numbers, *parts, strict=True
        ):
            digest = self.digests[number]
            taken = [next(ranges) for _ in range(records)]
            yield (
                EndpointKey(*endpoint),
                Receipt(
                    digest,
                    {at: (begin, begin + span) for at, begin, span in taken},
                    {next(numbered): None for _ in range(some)},
                    digest.count - others,
                    cut,
                ),
            )

    def issued(
        self, known: Sequence[EndpointKey], *columns: list[Any]
    ) -> Iterator[tuple[EndpointKey, Certificate]]:
        """Yield what `_Writer.issued` made columns of; `known` are those who got something."""
        nodes, names, who, numbers, first, last, expected, delivered, *more = columns
        everybody = [*known, *map(EndpointKey, nodes, names)]
        who = _listed(who)
        count, begin, source = len(who), self.key.begin, str(self.key.place)
        spans = (_unfolded(one, count) for one in (first, last, expected, delivered))
        others = zip(*(_unfolded(one, count) for one in more), strict=True)
        told = zip(who, numbers or who, *spans, others, strict=True)
        for at, number, begins, ends, wanted, came, rest in told:
            digest, endpoint = self.digests[number], everybody[at]
            equal, partial, sure, first_ms, last_ms = rest
            yield (
                endpoint,
                Certificate(
                    *(source, self.key.number, begins + begin, ends + begin, str(endpoint)),
                    *(wanted + digest.count, came + digest.count, equal, partial, sure),
                    *(digest, first_ms, last_ms),
                ),
            )

    def subjects(
        self, keys: Sequence[str], *columns: list[Any]
    ) -> Iterator[tuple[str, SubjectTally]]:
        """Yield what `_Writer.subjects` made columns of."""
        numbers, *more = columns
        parts = (_unfolded(one, len(numbers)) for one in more)
        begin = self.key.begin
        for key, number, first, last, known in zip(keys, numbers, *parts, strict=True):
            yield key, SubjectTally(self.digests[number], first + begin, last + begin, known)


def _columns(rows: Any, width: int) -> list[tuple[Any, ...]]:
    """Return the columns of rows, also of none."""
    return [*zip(*rows, strict=True)] or [()] * width


def _less(column: Sequence[int], other: Sequence[int]) -> list[int]:
    return [one - less for one, less in zip(column, other, strict=True)]


def _folded(column: Sequence[Any]) -> list[Any]:
    """Return a column, or its one value."""
    is_one = bool(column) and column.count(column[0]) == len(column)
    return [column[0]] if is_one else list(column)


def _unfolded(column: list[Any], count: int) -> list[Any]:
    return column * count if len(column) == 1 else column


def _counted(numbers: list[int]) -> list[int] | int:
    """Return numbers, or how many there are where they rise from 0 on by one."""
    return len(numbers) if numbers == [*range(len(numbers))] else numbers


def _listed(numbers: list[int] | int) -> list[int]:
    return [*range(numbers)] if isinstance(numbers, int) else numbers


def _text_of(digests: Sequence[Digest]) -> str:
    """Return digests as text, part by part, and of each first the lowest bytes of all.

    Hashes are as long as they are; of counts and sums the upper bytes are alike, and go together.
    """
    columns = zip(*digests, strict=True)
    data = (struct.pack(f"<{len(digests)}q", *column) for column in columns)
    return b64encode(b"".join(one[at::_WORD] for one in data for at in range(_WORD))).decode()


def _digests_of(text: str) -> Sequence[Digest]:
    """Return the digests that `_text_of` made a text of."""
    planes, parts = b64decode(text, validate=True), len(Digest._fields)
    count = len(planes) // (_WORD * parts)
    columns = []
    for part in range(parts):
        data = bytearray(_WORD * count)
        for at in range(_WORD):
            begin = (_WORD * part + at) * count
            data[at::_WORD] = planes[begin : begin + count]
        columns.append(struct.unpack(f"<{count}q", data))
    return [*map(Digest, *columns)]
