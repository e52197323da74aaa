"""The one place that reads the headers of a record.

To Kafka a header's name is bytes. A producer in C, Go, Rust or kcat may write a name that is not
UTF-8; the client library then raises SystemError when it is asked for the headers, and would
return broken objects when it is asked again. Spec: R12.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from operator import methodcaller
from typing import Any, Final

from mesh.transport.port import Headers, Record

UNREADABLE: Final[Headers] = []
"""Stands for unreadable headers: compare with `is`. To all others it means none."""

_NONE: Final[Headers] = ()

_ask = methodcaller("headers")
"""Calls in a way that checks for errors. Where a method is called often Python itself skips that:
an error stays unseen, and the broken objects end the process."""


def headers_of(record: Record) -> Headers:
    """Return the headers of a record in order; `UNREADABLE` if a name is not UTF-8."""
    try:
        headers = _ask(record)
    except (SystemError, UnicodeError):
        return _mark(record)
    return _NONE if headers is None else headers


def all_headers(records: Sequence[Record]) -> list[Headers]:
    """Return the result of `headers_of` for each: for the hot path, without a call per record."""
    found: list[Headers | None] = []
    while len(found) < len(records):
        try:
            found.extend(map(_ask, islice(records, len(found), None)))
        except (SystemError, UnicodeError):
            found.append(_mark(records[len(found)]))
    return [_NONE if headers is None else headers for headers in found]


def _mark(record: Any) -> Headers:
    """Mark a record's headers as unreadable: it must not be asked a second time."""
    record.set_headers(UNREADABLE)
    return UNREADABLE
