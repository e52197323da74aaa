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


def listed(names: Sequence[str], most: int) -> str:
    """Return `a, b and 3 more`.

    Args:
        names: What is named, in this order.
        most: So many are named one by one.
    """
    more = f" and {len(names) - most} more" if names[most:] else ""
    return ", ".join(names[:most]) + more
