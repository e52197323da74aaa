"""Moments as people write them."""

from __future__ import annotations

from datetime import datetime

from mesh.config.scalars import duration_s
from mesh.errors import wrong_input


def moment(text: str, wall_ms: int, where: str = "--at") -> int:
    """Return a moment in ms since 1970; anything older becomes 1970, since no record is older.

    Args:
        text: ISO 8601, in local time without an offset; or a duration, meaning that long ago.
        wall_ms: Now, likewise.
        where: The option it was given in, for problems.

    Raises:
        ConfigError: It is neither, or lies in the future.
    """
    ago = duration_s(text)
    try:
        at_s = wall_ms / 1000 - ago if ago is not None else datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError) as error:
        message = f"{text[:60]!r} is not a time; write 2026-05-04T10:00:00, or 15m for so long ago"
        raise wrong_input(where, message) from error
    if int(at_s * 1000) > wall_ms:
        message = f"{text[:60]!r} is in the future; give a time in the past"
        raise wrong_input(where, message)
    return max(0, int(at_s * 1000))
