"""A batch that fails again and again: what spoils it is left out, all else is taken.

Nothing that a stranger writes shall end the reading of a Kafka cluster. What is known to be odd is
refused where it is read; this is for what nobody has thought of. Spec: DESIGN 4.6.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mesh.errors import MeshError
from streaming.connectors.failures import REASON_MAX, innermost
from streaming.connectors.source import Ranges

TRIES_MAX = 200
"""How often a batch is divided at most; then what fails is left out as it is."""

_TRANSPORT = re.compile(
    r"org\.apache\.kafka|java\.(net|io|nio)\.|Timeout|Interrupt|cancel|Py4JNetwork|Connection"
)
"""What errors are called that say nothing of the records: the same batch may do later."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a batch was not taken.

    Attributes:
        batch: Its number.
        reason: One line; of the same fault always the same.
        is_transport: Whether it says nothing of the records.
    """

    batch: int
    reason: str
    is_transport: bool

    @classmethod
    def of(cls, batch: int, error: Exception) -> Failure:
        """Return the failure that an error stands for."""
        reason = fault_of(error)
        is_transport = isinstance(error, (MeshError, OSError)) or bool(_TRANSPORT.search(reason))
        return cls(batch, reason, is_transport)

    def is_again(self, before: Failure | None) -> bool:
        """Return whether the records of a batch have spoiled it, now and the last time."""
        return self == before and not self.is_transport


def fault_of(error: Exception) -> str:
    """Return the innermost cause of an error in one line, numbers left out: tasks have them."""
    return re.sub(r"\d+", "#", f"{type(error).__name__}: {innermost(error)}")[:REASON_MAX]


def sift(ranges: Ranges, take: Callable[[Ranges], None]) -> Sequence[tuple[Ranges, str]]:
    """Take all records that can be taken; return the others, each with the reason.

    Args:
        ranges: All of them, in the order in which they are to be taken.
        take: Takes some, or takes none of them and raises.

    Raises:
        Exception: What `take` raised, where that says nothing of the records.
    """
    left_out: list[tuple[Ranges, str]] = []
    pending: list[Ranges] = [ranges]
    tries = 0
    while pending:
        part = pending.pop()
        try:
            take(part)
        except Exception as error:
            failure = Failure.of(0, error)
            if failure.is_transport:
                raise
            tries += 1
            halves = _halves(part) if tries < TRIES_MAX else ()
            pending += reversed(halves)
            if not halves:
                left_out.append((part, failure.reason))
    return left_out


def _halves(ranges: Ranges) -> Sequence[Ranges]:
    """Return two parts of some records, or nothing if there is one at most."""
    if not ranges:
        return ()
    if len(ranges) > 1:
        places = list(ranges)
        middle = len(places) // 2
        return [{one: ranges[one] for one in some} for some in (places[:middle], places[middle:])]
    ((place, (first, end)),) = ranges.items()
    middle = (first + end) // 2
    return [{place: (first, middle)}, {place: (middle, end)}] if end - first > 1 else ()
