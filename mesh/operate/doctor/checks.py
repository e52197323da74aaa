"""What a check found, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from mesh.errors import TransportError, TransportUnavailableError

SHOWN_MAX = 3
"""Faults of one check that are listed: one bad setting may be on hundreds of topics."""

SEE_KAFKA = "see the checks of kafka"
SEE_RIGHTS = "see the checks of rights"


class Result(StrEnum):
    """What a check found."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class Category(StrEnum):
    """What checks are about, in the order in which they depend on each other."""

    KAFKA = "kafka"
    RIGHTS = "rights"
    TOPICS = "topics"
    TRANSACTIONS = "transactions"
    NODES = "nodes"
    LINKS = "links"
    LANES = "lanes"
    INTEREST = "interest"
    DELIVERY = "delivery"
    TREES = "trees"
    CLOCKS = "clocks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check.

    Attributes:
        description: What was checked.
        result: What was found.
        hint: What to do about the problem; empty if there is none.
        error: The problem; empty if there is none.
        note: Other observations, for example how much waits although it moves.
        figures: Numbers behind it, by name.
    """

    category: Category
    description: str
    result: Result = Result.OK
    hint: str = ""
    error: str = ""
    note: str = ""
    figures: Mapping[str, int] = field(default_factory=dict)


def judged(
    category: Category,
    description: str,
    error: str,
    hint: str,
    *,
    result: Result = Result.FAILED,
    note: str = "",
    figures: Mapping[str, int] | None = None,
) -> Check:
    """Return a check: passed if there is no error, else with this result and hint."""
    return Check(
        category=category,
        description=description,
        result=result if error else Result.OK,
        error=error,
        hint=hint if error else "",
        note=note,
        figures=figures or {},
    )


def first_of(faults: Iterable[str]) -> str:
    """Return the first faults in one line, and how many more there are."""
    listed = list(faults)
    more = listed[SHOWN_MAX:]
    return "; ".join(listed[:SHOWN_MAX]) + (f"; and {len(more)} more" if more else "")


def unseen(category: Category, description: str, fault: TransportError) -> Check:
    """Return the check that could not be made, because Kafka did not answer or refused."""
    if isinstance(fault, TransportUnavailableError):
        return judged(category, description, "its Kafka cluster does not answer", SEE_KAFKA)
    return judged(category, description, str(fault), SEE_RIGHTS)
