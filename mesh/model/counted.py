"""A number with its noun, or names of which there may be many, as sentences for people say it."""

from __future__ import annotations

from collections.abc import Sequence


def counted(count: int, noun: str) -> str:
    """Return `1 record` or `3 records`.

    Args:
        count: How many.
        noun: Of one; an `s` makes it many.
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def numbered(count: int, noun: str) -> str:
    """Return `records 0 to 2`, or `record 0 alone`: which there are of what is numbered from 0 on.

    Args:
        count: How many, 1 or more.
        noun: Of one; an `s` makes it many.
    """
    return f"{noun} 0 alone" if count == 1 else f"{noun}s 0 to {count - 1}"


def listed(names: Sequence[str], most: int) -> str:
    """Return `a, b and 3 more`.

    Args:
        names: What is named, in this order.
        most: So many are named one by one.
    """
    more = f" and {len(names) - most} more" if names[most:] else ""
    return ", ".join(names[:most]) + more
