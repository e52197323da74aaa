"""Dead letters as records: the refused record, truncated, and why. Spec: kafka.md 1."""

from __future__ import annotations

from dataclasses import replace

from mesh.model.record_headers import MESH_HEADER, Headers
from mesh.model.state import DeadLetter
from mesh.wire.state import encode_dead_letter

VALUE_KEPT = 64_000
KEY_KEPT = 4_000
HEADERS_KEPT = 16_000
"""Most bytes of each part that a dead letter keeps."""


def dead_letter_record(
    dead_letter: DeadLetter, key: bytes | None, value: bytes | None, headers: Headers
) -> tuple[bytes | None, bytes | None, Headers]:
    """Return (value, key, headers) of a dead letter.

    Args:
        dead_letter: What it says; the sizes are filled in here.
        key: Of the refused record; cut to what is kept, like the following.
        value: Likewise.
        headers: Likewise.
    """
    sized = replace(
        dead_letter,
        key_size=len(key or b""),
        value_size=len(value or b""),
        headers_size=sum(len(name) + len(content or b"") for name, content in headers),
    )
    return (
        value[:VALUE_KEPT] if value is not None else None,
        key[:KEY_KEPT] if key is not None else None,
        [*_kept(headers), (MESH_HEADER, encode_dead_letter(sized))],
    )


def _kept(headers: Headers) -> Headers:
    kept: list[tuple[str, bytes | None]] = []
    room = HEADERS_KEPT
    for name, content in headers:
        room -= len(name) + len(content or b"")
        if room < 0:
            break
        kept.append((name, content))
    return kept
