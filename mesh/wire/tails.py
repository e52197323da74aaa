"""A message inside a frame without its position there: key, headers, payload, ext. Spec: K10.

At ingress it is encoded once; hops and splits copy the bytes, and only a delivery reads them.
"""

from __future__ import annotations

from collections.abc import Iterable

from mesh.errors import DecodeError
from mesh.model.record_headers import Headers
from mesh.wire.blocks import NO_EXT, each_block, encode_name, read_ext, read_text, skip_bytes
from mesh.wire.varint import read_unsigned, zigzag

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


def encode_bare_tails(pairs: Iterable[tuple[bytes | None, bytes | None]]) -> list[bytes]:
    """Return what `encode_tail` returns for many keys and payloads without client headers.

    Raises:
        IndexError, TypeError: One of them is long or missing: use `encode_tail`.
    """
    some, bare = _SOME, _BARE_SOME
    return [
        b"".join((some[len(key)], key, bare[len(payload)], payload, NO_EXT))  # type: ignore[arg-type]
        for key, payload in pairs
    ]


def _optional(value: bytes | None) -> bytes:
    return b"\x00" if value is None else b"".join((b"\x02", zigzag(len(value)), value))


def _headers_bytes(headers: Headers | None) -> bytes:
    if not headers:
        return b"\x00"
    pieces = [zigzag(len(headers))]
    for name, value in headers:
        pieces += (encode_name(name), _optional(value))
    return b"".join((*pieces, b"\x00"))


def _read_optional(value: bytes, at: int) -> tuple[bytes | None, int]:
    # A length of one or two bytes is read in place, as in `messages._read_numbers`. An odd one
    # is negative.
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


def read_tail(value: bytes, at: int) -> tuple[bytes | None, Headers, bytes | None, bytes, int]:
    """Read a tail.

    Args:
        value: The messages of a frame, as they came.
        at: Where in it the tail begins.

    Returns:
        Key, headers, payload, bytes of `ext`, and the position after the tail.

    Raises:
        DecodeError: The bytes are not a tail.
        IndexError: They end too early; `messages` makes it a DecodeError once for all messages.
    """
    start = at + 2
    length = _SHORT_KEY.get(value[at:start])
    if length is not None:
        key_end = start + length
        start_payload = key_end + 4
        length = _BARE.get(value[key_end:start_payload])
        if length is not None:
            end = start_payload + length
            if not value[end]:  # the empty ext; that it is there proves all lengths
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


def read_headers(value: bytes, at: int) -> Headers:
    """Read the client headers of a tail, and nothing else of it.

    Raises:
        DecodeError, IndexError: As for `read_tail`.
    """
    at = _read_optional(value, at)[1]
    return _read_headers(value, at)[0] if value[at] else ()


def skip_tail(value: bytes, at: int) -> int:
    """Return the position after a tail, whose headers are not decoded.

    Raises:
        DecodeError, IndexError: As for `read_tail`.
    """
    length = _SHORT_KEY.get(value[at : at + 2])
    if length is not None:
        start = at + 6 + length
        length = _BARE.get(value[start - 4 : start])
        if length is not None and not value[start + length]:
            return start + length + 1
    at = _read_optional(value, at)[1]
    at = _skip_headers(value, at) if value[at] else at + 1
    at = _read_optional(value, at)[1]
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
            at = _read_optional(value, skip_bytes(value, at))[1]
        return at

    return each_block(value, position, _HEADER_LEAST, step)
