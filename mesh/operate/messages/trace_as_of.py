"""A trace as of a past moment: what of it was written by then.

Topics keep what they are given: what is found of a message now was there since it was written.
"""

from __future__ import annotations

from dataclasses import replace

from mesh.operate.messages.steps import DeliverySeen, FrameSeen
from mesh.operate.messages.trace import Trace


def trace_as_of(found: Trace, at_ms: int) -> Trace:
    """Return what was there of a message at a moment.

    The publishing time is by its publisher's clock, all else by the brokers'. A delivery with an
    unknown time stays if it can have been there: not if every frame that can have brought it is
    younger.

    Args:
        found: All that is there now.
        at_ms: The moment, ms since 1970.
    """
    frames = [one for one in found.frames if one.appended_ms <= at_ms]
    deliveries = [one for one in found.deliveries if _was_there(one, found.frames, at_ms)]
    is_letter = found.letter is not None and (found.letter_ms or 0) <= at_ms
    then = replace(
        found,
        is_there=found.is_there and (found.created_ms or 0) <= at_ms,
        frames=frames,
        deliveries=deliveries,
        letter=found.letter if is_letter else None,
    )
    came = bool(frames) or any(one.committed_ms is not None for one in deliveries)
    if found.is_routed and not came:
        # Its copies were written together with that; without any the time is unknown.
        is_open = bool(deliveries) or not found.came_of_it
        then.is_routed = None if is_open and then.is_there else False
    return then


def _was_there(delivery: DeliverySeen, frames: list[FrameSeen], at_ms: int) -> bool:
    if delivery.committed_ms is not None:
        return delivery.committed_ms <= at_ms
    brought = [one.appended_ms for one in frames if (*one.path, one.target) == delivery.path]
    return not brought or min(brought) <= at_ms
