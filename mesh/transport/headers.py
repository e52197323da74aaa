"""The one place that reads the headers of a record.

A header's name is bytes to Kafka. Whoever writes in C, Go, Rust or with kcat may write a name that
is not UTF-8; the client library then raises SystemError when it is asked for the headers, and
would hand out broken objects when it is asked again. Spec: R12.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from operator import methodcaller
from typing import Any, Final

from mesh.transport.port import Headers, Record

UNREADABLE: Final[Headers] = []
"""What stands for headers that cannot be read: compare with `is`. To all others: none."""

_NONE: Final[Headers] = ()

_ask = methodcaller("headers")
"""Asks by a call that looks at what came of it. Where a method is called often Python itself does
without: an error stays unseen, and the broken objects end the process."""


def headers_of(record: Record) -> Headers:
    """Return the headers of a record in order; `UNREADABLE` if a name is not UTF-8."""
    try:
        headers = _ask(record)
    except (SystemError, UnicodeError):
        return _mark(record)
    return _NONE if headers is None else headers


def all_headers(records: Sequence[Record]) -> list[Headers]:
    """Return what `headers_of` says of each: for the hot path, without a call per record."""
    found: list[Headers | None] = []
    while len(found) < len(records):
        try:
            found.extend(map(_ask, islice(records, len(found), None)))
        except (SystemError, UnicodeError):
            found.append(_mark(records[len(found)]))
    return [_NONE if headers is None else headers for headers in found]


def _mark(record: Any) -> Headers:
    """Have a record keep that its headers cannot be read: it must not be asked a second time."""
    record.set_headers(UNREADABLE)
    return UNREADABLE
