"""The subject table of a frame's key. Spec: K10.

Short ASCII is the usual case and deserves a special path: there every length is a character like
any other, so that one call encodes or decodes the whole table.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.errors import DecodeError
from mesh.wire.blocks import encode_text, read_texts
from mesh.wire.varint import read_zigzag, zigzag

#: The length of a short string, as the character that stands for its zigzag byte.
_SHORT = [chr(2 * length) for length in range(64)]


def encode_table(subjects: Sequence[str]) -> bytes:
    """Return the table as one block that names its size, so that a hop can jump over it.

    Raises:
        LocalProtocolError: A subject contains a lone surrogate.
    """
    if not subjects:
        return b"\x00"
    try:
        body = "".join([_SHORT[len(subject)] + subject for subject in subjects]).encode("ascii")
    except (IndexError, UnicodeEncodeError):
        body = b"".join(map(encode_text, subjects))
    return b"".join((zigzag(-len(subjects)), zigzag(len(body)), body, b"\x00"))


def subject_table(table: bytes) -> Sequence[str]:
    """Return the subjects of `Peeked.table_bytes`; messages refer to them by index.

    Raises:
        DecodeError: The bytes are not an array of strings.
    """
    subjects = _short_ascii(table)
    if subjects is None:
        subjects, end = read_texts(table, 0)
        if end != len(table):
            raise DecodeError(f"{len(table) - end} bytes follow the subject table")
    return tuple(subjects)


def _short_ascii(table: bytes) -> list[str] | None:
    """Return the subjects of a table in one block of short ASCII; None for any other table."""
    count, start = read_zigzag(table, 0)
    end = len(table) - 1
    if count < 0:
        size, start = read_zigzag(table, start)
        count = -count
        end = start + size
    body = table[start:end]
    if end != len(table) - 1 or table[end] != 0 or count > len(body) or not body.isascii():
        return None
    text = body.decode("ascii")
    subjects = []
    position = 0
    try:
        for _ in range(count):
            length = body[position]
            if length & 1:
                return None
            start = position + 1
            position = start + (length >> 1)
            subjects.append(text[start:position])
    except IndexError:
        return None
    return subjects if position == len(body) else None
