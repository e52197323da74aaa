"""Lists of columns on their way to the JVM, which makes a sequence of each once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

SEQUENCES_MAX = 1_000
"""So many are remembered: some name what one batch alone has, and never come again."""


def made_once(to_seq: Callable[[list[Any]], Any]) -> Callable[[Iterable[Any]], Any]:
    """Return what hands the same columns over once, as PySpark calls `PythonUtils.toSeq`.

    Each column of each list is a call to the JVM: half of what was said to prepare a batch, though
    most of its columns are those of the batch before.
    """
    made: dict[tuple[object, ...], Any] = {}

    def handed_over(columns: Iterable[Any]) -> Any:
        found = [*columns]
        key = tuple(getattr(one, "_target_id", one) for one in found)  # no such number comes again
        if (sequence := made.get(key)) is None:
            if len(made) >= SEQUENCES_MAX:
                made.clear()
            sequence = made[key] = to_seq(found)
        return sequence

    return handed_over
