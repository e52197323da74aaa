"""Avro's strings, bytes, arrays and maps, read by position with every length checked first.

Other writers may cut an array or a map into several blocks, and give a block's size in bytes
(a negative count); both are read. Nothing here trusts a number: what does not fit into the
bytes that are left is refused before anything is sliced or allocated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mesh.errors import DecodeError, LocalProtocolError
from mesh.wire.varint import read_zigzag, zigzag

NO_EXT = b"\x00"
"""The bytes of an empty `ext`."""

#: Fewest bytes of one item: a string; a map entry of two lengths; a header of length and union.
_STRING_LEAST = 1
_ENTRY_LEAST = 2

#: Names are few; if a client invents them without end, the memo starts over.
_NAMES_MAX = 4_096
_names: dict[str, bytes] = {}

Step = Callable[[int, int], int]
"""Reads a block's items: (position, how many) -> position after them."""


def read_bytes(buffer: bytes, position: int) -> tuple[bytes, int]:
    """Read Avro bytes; return them and the position after them.

    Raises:
        DecodeError: The length is negative or goes past the end.
    """
    start, end = _extent(buffer, position)
    return buffer[start:end], end


def read_text(buffer: bytes, position: int) -> tuple[str, int]:
    """Read an Avro string; return it and the position after it.

    Raises:
        DecodeError: As for `read_bytes`, or it is not UTF-8.
    """
    start, end = _extent(buffer, position)
    try:
        return buffer[start:end].decode(), end
    except UnicodeDecodeError as error:
        raise DecodeError(f"the text at byte {position} is not UTF-8") from error


def skip_bytes(buffer: bytes, position: int) -> int:
    """Return the position after Avro bytes or an Avro string, unread.

    Raises:
        DecodeError: As for `read_bytes`.
    """
    return _extent(buffer, position)[1]


def _extent(buffer: bytes, position: int) -> tuple[int, int]:
    length, start = read_zigzag(buffer, position)
    end = start + length
    if length < 0 or end > len(buffer):
        raise DecodeError(f"{length} bytes at byte {position}, {len(buffer) - start} are left")
    return start, end


def each_block(buffer: bytes, position: int, least: int, step: Step) -> int:
    """Read an array or a map block by block; return the position after it.

    Args:
        buffer: What is read.
        position: The position of the first block's count.
        least: Fewest bytes that one item can have, to refuse absurd counts.
        step: Reads the items of one block.

    Raises:
        DecodeError: A count or a size does not fit, or the items are not as long as stated.
    """
    while True:
        count, start = read_zigzag(buffer, position)
        if count == 0:
            return start
        end = None
        if count < 0:
            size, start = read_zigzag(buffer, start)
            count, end = -count, start + size
        if count * least > len(buffer) - start:
            raise DecodeError(f"{count} items at byte {position} do not fit into what is left")
        position = step(start, count)
        if end is not None and position != end:
            raise DecodeError(f"a block ends at byte {position} and said {end}")


def read_texts(buffer: bytes, position: int) -> tuple[list[str], int]:
    """Read an array of strings; return it and the position after it.

    Raises:
        DecodeError: As for `each_block` and `read_text`.
    """
    texts: list[str] = []

    def step(at: int, count: int) -> int:
        for _ in range(count):
            text, at = read_text(buffer, at)
            texts.append(text)
        return at

    return texts, each_block(buffer, position, _STRING_LEAST, step)


def skip_texts(buffer: bytes, position: int) -> int:
    """Return the position after an array of strings; skip blocks that state their size.

    Raises:
        DecodeError: As for `each_block`; the contents of a sized block are not checked.
    """
    while True:
        count, start = read_zigzag(buffer, position)
        if count == 0:
            return start
        if count < 0:
            size, start = read_zigzag(buffer, start)
            position = start + size
            if size < -count or position > len(buffer):
                raise DecodeError(f"{-count} strings in {size} bytes at byte {start}")
            continue
        if count > len(buffer) - start:
            raise DecodeError(f"{count} items at byte {position} do not fit into what is left")
        position = start
        for _ in range(count):
            position = skip_bytes(buffer, position)


def read_ext(buffer: bytes, position: int) -> tuple[dict[str, bytes], int]:
    """Read an `ext`, a map of bytes; return it and the position after it.

    Raises:
        DecodeError: As for `each_block` and `read_text`.
    """
    entries: dict[str, bytes] = {}

    def step(at: int, count: int) -> int:
        for _ in range(count):
            name, at = read_text(buffer, at)
            entries[name], at = read_bytes(buffer, at)
        return at

    return entries, each_block(buffer, position, _ENTRY_LEAST, step)


def encode_text(text: str) -> bytes:
    """Return an Avro string.

    Raises:
        LocalProtocolError: It contains a lone surrogate and so is not Unicode.
    """
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"{text!r} is not Unicode") from error
    return zigzag(len(raw)) + raw


def encode_name(name: str) -> bytes:
    """Return an Avro string that recurs often: the name of a node, a zone, a header.

    Raises:
        LocalProtocolError: As for `encode_text`.
    """
    encoded = _names.get(name)
    if encoded is None:
        if len(_names) >= _NAMES_MAX:
            _names.clear()
        encoded = _names[name] = encode_text(name)
    return encoded


def encode_ext(entries: Mapping[str, bytes]) -> bytes:
    """Return the bytes of an `ext`."""
    if not entries:
        return NO_EXT
    pieces = [zigzag(len(entries))]
    for name, value in entries.items():
        pieces += (encode_name(name), zigzag(len(value)), value)
    return b"".join((*pieces, NO_EXT))
