"""The value of a frame: messages in source order. The hot path of the codec. Spec: K10.

A message is three small numbers, which are its position in the frame, and a tail, which is the
same in every frame: see `mesh.wire.tails`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from mesh.errors import DecodeError
from mesh.model.frames import Origin
from mesh.model.record_headers import Headers
from mesh.wire.blocks import each_block
from mesh.wire.tails import read_tail, skip_tail
from mesh.wire.varint import SMALL, read_unsigned, read_zigzag, zigzag

MessageTuple = tuple[int, int, int, bytes | None, Headers, bytes | None, bytes]
"""Offset, subject index, time stamp in ms, key, headers, payload, bytes of `ext`."""

Scanned = tuple[int, int, int, int, int]
"""Offset delta, subject index, time stamp delta, where the tail begins, where it ends."""

_MESSAGE_LEAST = 7
_COUNTING = [SMALL[number] for number in range(8_192)]


def assemble_value(base_timestamp: int, items: Sequence[tuple[int, int, int, bytes]]) -> bytes:
    """Return a frame's value.

    Args:
        base_timestamp: Create time of the first message, ms.
        items: Per message: offset delta, subject index, time stamp delta, tail.

    Raises:
        LocalProtocolError: A number does not fit into 64 bits.
    """
    if not items:
        return zigzag(base_timestamp) + b"\x00"
    pieces = [zigzag(base_timestamp), zigzag(len(items))]
    extend = pieces.extend
    small = SMALL
    try:
        for offset, subject, timestamp, tail in items:
            extend((small[offset], small[subject], small[timestamp], tail))
    except KeyError:
        # Beyond the table, as in frames of few messages out of many: from the start, slower.
        del pieces[2:]
        for offset, subject, timestamp, tail in items:
            extend((zigzag(offset), zigzag(subject), zigzag(timestamp), tail))
    pieces.append(b"\x00")
    return b"".join(pieces)


def assemble_columns(
    first: int,
    offsets: Sequence[int],
    table: Iterable[str],
    subjects: Sequence[str],
    stamps: Sequence[int],
    tails: Sequence[bytes],
) -> bytes:
    """Return a frame's value from parallel sequences; the same as `assemble_value`, faster.

    Args:
        first: Offset that the deltas count from.
        offsets: Of each message, rising.
        table: Subject table of the frame's key.
        subjects: Of each message; all are in the table.
        stamps: Create times, ms; the first is the base.
        tails: As `encode_tail` made them.

    Raises:
        LocalProtocolError: A number does not fit into 64 bits.
    """
    base = stamps[0]
    count = len(offsets)
    index_of = dict(zip(table, _COUNTING, strict=False))
    pieces = [b""] * (4 * count)
    try:
        pieces[0::4] = (
            _COUNTING[:count]  # nothing was left out in between
            if offsets[-1] - first == count - 1 < len(_COUNTING)
            else [SMALL[offset - first] for offset in offsets]
        )
        pieces[1::4] = map(index_of.__getitem__, subjects)
        pieces[2::4] = [SMALL[stamp - base] for stamp in stamps]
    except KeyError:
        # Beyond the tables, as in frames of few messages out of many.
        index_of = {subject: zigzag(number) for number, subject in enumerate(table)}
        pieces[0::4] = [zigzag(offset - first) for offset in offsets]
        pieces[1::4] = map(index_of.__getitem__, subjects)
        pieces[2::4] = [zigzag(stamp - base) for stamp in stamps]
    pieces[3::4] = tails
    return b"".join((zigzag(base), zigzag(count), *pieces, b"\x00"))


def scan_value(value: bytes, origin: Origin | None = None) -> tuple[int, list[Scanned]]:
    """Return the base time stamp and where each message lies, without reading tails.

    Header names inside tails are not decoded; faults there show when a tail is read.

    Args:
        value: The frame's value.
        origin: From the frame's key; without it nothing is checked against the key.

    Raises:
        DecodeError: The bytes are not a frame's value, or contradict the frame's key.
    """
    base, position = read_zigzag(value, 0)
    _, span, subjects = _limits(origin)
    scanned: list[Scanned] = []
    append = scanned.append
    before = -1

    def step(at: int, count: int) -> int:
        nonlocal before
        for _ in range(count):
            offset, subject, timestamp, start = _read_numbers(value, at)
            if not (before < offset <= span and 0 <= subject < subjects):
                raise _contradiction(offset, before, span, subject, subjects)
            before = offset
            at = skip_tail(value, start)
            append((offset, subject, timestamp, start, at))
        return at

    _whole(value, position, step)
    _check_count(len(scanned), origin)
    return base, scanned


def decode_messages(
    value: bytes, origin: Origin, wanted: Sequence[bool] | None = None
) -> list[MessageTuple]:
    """Return the messages of a frame for delivery.

    Args:
        value: The frame's value.
        origin: From the frame's key.
        wanted: Per index of the subject table; messages of the other subjects are left out.

    Raises:
        DecodeError: The bytes are not a frame's value, or contradict the frame's key.
    """
    base, position = read_zigzag(value, 0)
    first, span, subjects = _limits(origin)
    found: list[MessageTuple] = []
    append = found.append
    seen = 0
    before = -1

    def step(at: int, count: int) -> int:
        nonlocal seen, before
        seen += count
        for _ in range(count):
            offset, subject, timestamp, at = _read_numbers(value, at)
            if not (before < offset <= span and 0 <= subject < subjects):
                raise _contradiction(offset, before, span, subject, subjects)
            before = offset
            if wanted is None or wanted[subject]:
                key, headers, payload, ext, at = read_tail(value, at)
                append((first + offset, subject, base + timestamp, key, headers, payload, ext))
            else:
                at = skip_tail(value, at)
        return at

    _whole(value, position, step)
    _check_count(seen, origin)
    return found


def _limits(origin: Origin | None) -> tuple[int, int, int]:
    """Return first offset, largest offset delta, and number of subjects."""
    if origin is None:
        return 0, (1 << 63) - 1, (1 << 31) - 1
    return origin.first, origin.last - origin.first, len(origin.subjects)


def _contradiction(offset: int, before: int, span: int, subject: int, subjects: int) -> DecodeError:
    if before < offset <= span:
        return DecodeError(f"subject {subject} in a table of {subjects}")
    return DecodeError(f"offset delta {offset} after {before}, in a stretch of {span}")


def _check_count(count: int, origin: Origin | None) -> None:
    if origin is not None and count != origin.count:
        raise DecodeError(f"{count} messages in a frame of {origin.count}")


def _whole(value: bytes, position: int, step: Callable[[int, int], int]) -> None:
    try:
        end = each_block(value, position, _MESSAGE_LEAST, step)
    except IndexError:
        raise DecodeError("the bytes end inside a message") from None
    if end != len(value):
        raise DecodeError(f"{len(value) - end} bytes follow the messages")


def _read_numbers(value: bytes, at: int) -> tuple[int, int, int, int]:
    """Read offset delta, subject index, time stamp delta; return them and what follows."""
    # Numbers of one and two bytes are read in place, because a call would cost more than the
    # reading: `(value[at] - 1) << 7` joins the second byte to a first one of 128 or more, and the
    # sum stays below 16,384 exactly if the second byte is the last one.
    number = value[at]
    at += 1
    if number > 127:
        number += (value[at] - 1) << 7
        at += 1
        if number > 16383:
            number, at = read_unsigned(value, at - 2)
    offset = (number >> 1) ^ -(number & 1)
    number = value[at]
    at += 1
    if number > 127:
        number += (value[at] - 1) << 7
        at += 1
        if number > 16383:
            number, at = read_unsigned(value, at - 2)
    subject = (number >> 1) ^ -(number & 1)
    number = value[at]
    at += 1
    if number > 127:
        number += (value[at] - 1) << 7
        at += 1
        if number > 16383:
            number, at = read_unsigned(value, at - 2)
    return offset, subject, (number >> 1) ^ -(number & 1), at
