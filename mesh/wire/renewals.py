"""Headers of records that repeat a subscription to renew its lease: they name the original record.

Spec: K13.
"""

from __future__ import annotations

from mesh.model.record_headers import LEASE_HEADER, Headers

ENDED: Headers = [(LEASE_HEADER, b"")]
"""Headers of the record by which a node ends a lease that nobody has renewed."""

NOT_SAID = -1
"""Offset of a statement that nobody has made: older than every record."""
_OFFSET_DIGITS = 19


def repeating(said_at: int) -> Headers:
    """Return the headers of a record that renews a lease.

    Args:
        said_at: Offset of the subscription, as somebody wrote it.
    """
    return [(LEASE_HEADER, b"%d" % said_at)]


def said_at(offset: int, headers: Headers) -> int:
    """Return the offset of the subscription, or of its end, that a record states or repeats.

    A later statement is newer, however late somebody repeats the older one.

    Args:
        offset: The record's own.
        headers: Its headers. No record repeats a later one: one that claims to counts for itself.
    """
    for name, told in headers:
        if name == LEASE_HEADER and told == b"":
            return NOT_SAID
        if name == LEASE_HEADER and told and told.isdigit() and len(told) <= _OFFSET_DIGITS:
            return min(offset, int(told))
    return offset
