"""The value of a frame: messages in source order. The hot path of the codec. Spec: K10.

At ingress a message is encoded once, as a *tail* (key, headers, payload, ext). A value is
then three small numbers and a tail per message; a split copies tails by slices, and only a
delivery reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mesh.codec.blocks import NO_EXT, each_block, encode_name, read_ext, read_text, skip_bytes
from mesh.codec.varint import SMALL, read_unsigned, read_zigzag, zigzag
from mesh.errors import DecodeError
from mesh.model.frames import Origin

Headers = Sequence[tuple[str, bytes | None]]
"""Client headers in order; names may repeat and values be None."""

MessageTuple = tuple[int, int, int, bytes | None, Headers, bytes | None, bytes]
"""Offset, subject index, time stamp in ms, key, headers, payload, bytes of `ext`."""

Scanned = tuple[int, int, int, int, int]
"""Offset delta, subject index, time stamp delta, where the tail begins, where it ends."""

_MESSAGE_LEAST = 7
_HEADER_LEAST = 2
#: The two branches of a union [null, bytes].
_NULL, _BYTES = 0, 2

#: Second branch of a union [null, bytes], up to the bytes themselves; and the same after the
#: empty array of headers.
_SOME = [b"\x02" + zigzag(length) for length in range(8_192)]
_BARE_SOME = [b"\x00" + some for some in _SOME]
#: The same read backwards: two bytes before a short key, four before a payload of 64 bytes to
#: 8 kB that no headers precede. Most messages look like that, and two look-ups read them.
_SHORT_KEY = {some: length for length, some in enumerate(_SOME[:64])}
_BARE = {bare: length for length, bare in enumerate(_BARE_SOME) if len(bare) == 4}


def encode_tail(
    key: bytes | None, headers: Headers | None, payload: bytes | None, ext: bytes = NO_EXT
) -> bytes:
    """Return the bytes of a message that do not depend on its frame.

    Args:
        key: Record key.
        headers: Client headers.
        payload: Record value; None is a tombstone.
        ext: Bytes of the message's `ext`.

    Raises:
        LocalProtocolError: A header's name is not Unicode.
    """
    if key is not None and payload is not None and not headers:
        try:
            return b"".join((_SOME[len(key)], key, _BARE_SOME[len(payload)], payload, ext))
        except IndexError:
            pass  # longer than the tables go
    return b"".join((_optional(key), _headers_bytes(headers), _optional(payload), ext))


def _optional(value: bytes | None) -> bytes:
    return b"\x00" if value is None else b"".join((b"\x02", zigzag(len(value)), value))


def _headers_bytes(headers: Headers | None) -> bytes:
    if not headers:
        return b"\x00"
    pieces = [zigzag(len(headers))]
    for name, value in headers:
        pieces += (encode_name(name), _optional(value))
    return b"".join((*pieces, b"\x00"))


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


def scan_value(value: bytes, origin: Origin | None = None) -> tuple[int, list[Scanned]]:
    """Return the base time stamp and where each message lies, without reading tails.

    Header names inside of tails are not decoded; whoever reads a tail finds what is wrong there.

    Args:
        value: The frame's value.
        origin: From the frame's key; without it nothing is held against the key.

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
            at = _skip_tail(value, start)
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
                key, headers, payload, ext, at = _read_tail(value, at)
                append((first + offset, subject, base + timestamp, key, headers, payload, ext))
            else:
                at = _skip_tail(value, at)
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


# Below, numbers of one and two bytes are read in place, because a call costs more than all the
# rest: `number += (value[at] - 1) << 7` joins the second byte to a first one of 128 or more, and
# the sum stays below 16,384 exactly if the second byte is the last. What the sum says is
# zigzag still: odd is negative, which no length and no index may be. An index beyond the end
# raises IndexError, which `_whole` turns into DecodeError.


def _read_numbers(value: bytes, at: int) -> tuple[int, int, int, int]:
    """Read offset delta, subject index, time stamp delta; return them and what follows."""
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


def _read_optional(value: bytes, at: int) -> tuple[bytes | None, int]:
    branch = value[at]
    if branch == _NULL:
        return None, at + 1
    number = value[at + 1]
    at += 2
    if number > 127:
        number += (value[at] - 1) << 7
        at += 1
        if number > 16383:
            number, at = read_unsigned(value, at - 2)
    end = at + (number >> 1)
    if branch != _BYTES or number & 1 or end > len(value):
        raise DecodeError(f"no key, header or payload before byte {at}")
    return value[at:end], end


def _skip_optional(value: bytes, at: int) -> int:
    branch = value[at]
    if branch == _NULL:
        return at + 1
    number = value[at + 1]
    at += 2
    if number > 127:
        number += (value[at] - 1) << 7
        at += 1
        if number > 16383:
            number, at = read_unsigned(value, at - 2)
    end = at + (number >> 1)
    if branch != _BYTES or number & 1 or end > len(value):
        raise DecodeError(f"no key, header or payload before byte {at}")
    return end


def _read_tail(value: bytes, at: int) -> tuple[bytes | None, Headers, bytes | None, bytes, int]:
    """Read a tail; return key, headers, payload, bytes of `ext`, and what follows."""
    start = at + 2
    length = _SHORT_KEY.get(value[at:start])
    if length is not None:
        key_end = start + length
        start_payload = key_end + 4
        length = _BARE.get(value[key_end:start_payload])
        if length is not None:
            end = start_payload + length
            if not value[end]:
                return value[start:key_end], (), value[start_payload:end], NO_EXT, end + 1
    key, at = _read_optional(value, at)
    headers: Headers = ()
    if value[at]:
        headers, at = _read_headers(value, at)
    else:
        at += 1
    payload, at = _read_optional(value, at)
    if value[at]:
        end = read_ext(value, at)[1]
        return key, headers, payload, value[at:end], end
    return key, headers, payload, NO_EXT, at + 1


def _skip_tail(value: bytes, at: int) -> int:
    """Return what follows a tail, as `_read_tail` would."""
    length = _SHORT_KEY.get(value[at : at + 2])
    if length is not None:
        start = at + 6 + length
        length = _BARE.get(value[start - 4 : start])
        if length is not None and not value[start + length]:
            return start + length + 1
    at = _skip_optional(value, at)
    at = _skip_headers(value, at) if value[at] else at + 1
    at = _skip_optional(value, at)
    return read_ext(value, at)[1] if value[at] else at + 1


def _read_headers(value: bytes, position: int) -> tuple[Headers, int]:
    headers: list[tuple[str, bytes | None]] = []

    def step(at: int, count: int) -> int:
        for _ in range(count):
            name, at = read_text(value, at)
            content, at = _read_optional(value, at)
            headers.append((name, content))
        return at

    return headers, each_block(value, position, _HEADER_LEAST, step)


def _skip_headers(value: bytes, position: int) -> int:
    def step(at: int, count: int) -> int:
        for _ in range(count):
            at = _skip_optional(value, skip_bytes(value, at))
        return at

    return each_block(value, position, _HEADER_LEAST, step)
