"""A number with its noun, as sentences for people say it."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Return `1 record` or `3 records`.

    Args:
        count: How many.
        noun: Of one; an `s` makes it many.
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
