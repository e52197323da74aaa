"""The value of a frame: messages in source order. The hot path of the codec. Spec: K10.

At ingress a message is encoded once, as a *tail* (key, headers, payload, ext). A value is
then three small numbers and a tail per message; a split copies tails by slices, and only a
delivery reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mesh.codec.blocks import NO_EXT, each_block, encode_text, read_ext, read_text, skip_bytes
from mesh.codec.varint import SMALL, read_zigzag, zigzag
from mesh.errors import DecodeError, LocalProtocolError
from mesh.model.frames import Origin

Headers = Sequence[tuple[str, bytes | None]]
"""Client headers in order; names may repeat and values be None."""

MessageTuple = tuple[int, int, int, bytes | None, Headers, bytes | None, bytes]
"""Offset, subject index, time stamp in ms, key, headers, payload, bytes of `ext`."""

Scanned = tuple[int, int, int, int, int]
"""Offset delta, subject index, time stamp delta, where the tail begins, where it ends."""

_MESSAGE_LEAST = 7
_HEADER_LEAST = 2
_NAMES_MAX = 4_096

#: Second branch of a union [null, bytes], up to the bytes themselves; and the same after the
#: empty array of headers.
_SOME = [b"\x02" + zigzag(length) for length in range(8_192)]
_BARE_SOME = [b"\x00" + some for some in _SOME]
_names: dict[str, bytes] = {}


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
        pieces += (_names.get(name) or _name_bytes(name), _optional(value))
    return b"".join((*pieces, b"\x00"))


def _name_bytes(name: str) -> bytes:
    """Encode a header's name; few names come again and again, so they are kept."""
    try:
        encoded = encode_text(name)
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"a header's name is not Unicode: {error}") from error
    if len(_names) >= _NAMES_MAX:
        _names.clear()
    _names[name] = encoded
    return encoded


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
    for offset, subject, timestamp, tail in items:
        try:
            extend((small[offset], small[subject], small[timestamp], tail))
        except IndexError:
            extend((zigzag(offset), zigzag(subject), zigzag(timestamp), tail))
    pieces.append(b"\x00")
    return b"".join(pieces)


def scan_value(value: bytes) -> tuple[int, list[Scanned]]:
    """Return the base time stamp and where each message lies, without reading tails.

    Raises:
        DecodeError: The bytes are not a frame's value.
    """
    base, position = read_zigzag(value, 0)
    scanned: list[Scanned] = []
    append = scanned.append

    def step(at: int, count: int) -> int:
        for _ in range(count):
            offset, at = read_zigzag(value, at)
            subject, at = read_zigzag(value, at)
            timestamp, at = read_zigzag(value, at)
            start = at
            at = _skip_tail(value, at)
            append((offset, subject, timestamp, start, at))
        return at

    _whole(value, position, step)
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
    first, span, subjects = origin.first, origin.last - origin.first, len(origin.subjects)
    found: list[MessageTuple] = []
    append = found.append
    seen = 0
    before = -1

    def step(at: int, count: int) -> int:
        nonlocal seen, before
        seen += count
        for _ in range(count):
            offset, at = read_zigzag(value, at)
            subject, at = read_zigzag(value, at)
            timestamp, at = read_zigzag(value, at)
            if not before < offset <= span:
                raise DecodeError(f"offset delta {offset} after {before}, in a stretch of {span}")
            if not 0 <= subject < subjects:
                raise DecodeError(f"subject {subject} in a table of {subjects}")
            before = offset
            if wanted is not None and not wanted[subject]:
                at = _skip_tail(value, at)
                continue
            key, at = _read_optional(value, at)
            headers, at = _read_headers(value, at)
            payload, at = _read_optional(value, at)
            end = _skip_ext(value, at)
            append(
                (first + offset, subject, base + timestamp, key, headers, payload, value[at:end])
            )
            at = end
        return at

    _whole(value, position, step)
    if seen != origin.count:
        raise DecodeError(f"{seen} messages in a frame of {origin.count}")
    return found


def _whole(value: bytes, position: int, step: Callable[[int, int], int]) -> None:
    end = each_block(value, position, _MESSAGE_LEAST, step)
    if end != len(value):
        raise DecodeError(f"{len(value) - end} bytes follow the messages")


def _read_optional(value: bytes, position: int) -> tuple[bytes | None, int]:
    branch, start = read_zigzag(value, position)
    if branch == 0:
        return None, start
    length, start = read_zigzag(value, start)
    end = start + length
    if branch != 1 or length < 0 or end > len(value):
        raise DecodeError(f"no key, header or payload at byte {position}")
    return value[start:end], end


def _skip_optional(value: bytes, position: int) -> int:
    branch, start = read_zigzag(value, position)
    if branch == 0:
        return start
    if branch != 1:
        raise DecodeError(f"no key, header or payload at byte {position}")
    return skip_bytes(value, start)


def _read_headers(value: bytes, position: int) -> tuple[Headers, int]:
    headers: list[tuple[str, bytes | None]] = []

    def step(at: int, count: int) -> int:
        for _ in range(count):
            name, at = read_text(value, at)
            content, at = _read_optional(value, at)
            headers.append((name, content))
        return at

    return headers, each_block(value, position, _HEADER_LEAST, step)


def _skip_ext(value: bytes, position: int) -> int:
    return read_ext(value, position)[1]


def _skip_tail(value: bytes, position: int) -> int:
    position = _skip_optional(value, position)
    position = _read_headers(value, position)[1]
    return _skip_ext(value, _skip_optional(value, position))
