"""Lists of columns on their way to the JVM, which makes a sequence of each once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

SEQUENCES_MAX = 1_000
"""How many are remembered: some belong to one batch alone, and never recur."""


def made_once(to_seq: Callable[[list[Any]], Any]) -> Callable[[Iterable[Any]], Any]:
    """Return a function for `PythonUtils.toSeq` that hands the same columns over only once.

    Each column of each list is a call to the JVM: half of the traffic for preparing a batch, though
    most of its columns are those of the previous batch.
    """
    made: dict[tuple[object, ...], Any] = {}

    def handed_over(columns: Iterable[Any]) -> Any:
        found = [*columns]
        key = tuple(getattr(one, "_target_id", one) for one in found)  # ids are never reused
        if (sequence := made.get(key)) is None:
            if len(made) >= SEQUENCES_MAX:
                made.clear()
            sequence = made[key] = to_seq(found)
        return sequence

    return handed_over
