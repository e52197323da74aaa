"""Frames as bytes: everything that a lane, a client or a test needs, in one place. Spec: K10.

`mesh.wire.header` writes and reads the key, `mesh.wire.messages` the value; here they are combined
for callers that want whole messages.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.errors import LocalProtocolError
from mesh.model.frames import FrameHeader, Message, Origin
from mesh.wire.blocks import NO_EXT, encode_ext, read_ext
from mesh.wire.eras import decode_eras, encode_eras
from mesh.wire.header import (
    Peeked,
    decode_header,
    encode_header,
    flagged_tail,
    key_tail,
    origin_of,
    peek,
    relay_key,
    with_eras,
)
from mesh.wire.messages import (
    MessageTuple,
    Scanned,
    assemble_columns,
    assemble_value,
    decode_messages,
    scan_value,
)
from mesh.wire.subjects import subject_table
from mesh.wire.tails import encode_bare_tails, encode_tail, read_headers

__all__ = [
    "NO_EXT",
    "MessageTuple",
    "Peeked",
    "Scanned",
    "assemble_columns",
    "assemble_value",
    "decode_eras",
    "decode_ext",
    "decode_header",
    "decode_messages",
    "decode_value",
    "encode_bare_tails",
    "encode_eras",
    "encode_ext",
    "encode_header",
    "encode_tail",
    "encode_value",
    "flagged_tail",
    "key_tail",
    "origin_of",
    "peek",
    "read_headers",
    "relay_key",
    "scan_value",
    "subject_table",
    "with_eras",
]


def encode_value(messages: Sequence[Message], origin: Origin) -> bytes:
    """Return the value of a frame of these messages; its key is made of the same origin.

    Raises:
        LocalProtocolError: A message's subject is not in the table, or a value does not fit.
    """
    index = {subject: number for number, subject in enumerate(origin.subjects)}
    base = messages[0].timestamp if messages else 0
    try:
        items = [
            (
                message.offset - origin.first,
                index[message.subject],
                message.timestamp - base,
                encode_tail(message.key, message.headers, message.payload, encode_ext(message.ext)),
            )
            for message in messages
        ]
    except KeyError as error:
        raise LocalProtocolError(f"subject {error} is not in the frame's table") from error
    return assemble_value(base, items)


def decode_value(value: bytes, header: FrameHeader) -> Sequence[Message]:
    """Return the messages of a frame.

    Raises:
        DecodeError: The bytes are not a frame's value, or contradict its header.
    """
    subjects = header.origin.subjects
    return tuple(
        Message(
            offset=offset,
            subject=subjects[subject],
            timestamp=timestamp,
            key=key,
            headers=tuple(headers),
            payload=payload,
            ext=decode_ext(ext),
        )
        for offset, subject, timestamp, key, headers, payload, ext in decode_messages(
            value, header.origin
        )
    )


def decode_ext(ext: bytes) -> dict[str, bytes]:
    """Return the entries of an `ext` as it lies in a message or a header.

    Raises:
        DecodeError: The bytes are not a map of bytes.
    """
    return read_ext(ext, 0)[0]
