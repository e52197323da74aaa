"""Headers of records that repeat a subscription, so that its lease goes on: which word they repeat.

Spec: K13.
"""

from __future__ import annotations

from mesh.model.record_headers import LEASE_HEADER, Headers

ENDED: Headers = [(LEASE_HEADER, b"")]
"""Headers of the record by which a node ends a lease that nobody has renewed."""

NO_WORD = -1
"""What is said by nobody: older than every word."""
_OFFSET_DIGITS = 19


def repeating(word: int) -> Headers:
    """Return the headers of a record that renews a lease.

    Args:
        word: Offset of the subscription, as somebody wrote it.
    """
    return [(LEASE_HEADER, b"%d" % word)]


def word_of(offset: int, headers: Headers) -> int:
    """Return where the subscription stands, or the end of one, that a record says or repeats.

    Whose offset is higher is the newer word, however late somebody repeats the older one.

    Args:
        offset: The record's own.
        headers: Its headers. No record repeats a later one: what says so is a word of its own.
    """
    for name, told in headers:
        if name == LEASE_HEADER and told == b"":
            return NO_WORD
        if name == LEASE_HEADER and told and told.isdigit() and len(told) <= _OFFSET_DIGITS:
            return min(offset, int(told))
    return offset
