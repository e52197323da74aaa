"""What one subscription claims of one source: how much must come, and what may. Spec: K25, K31."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from math import inf

from streaming.audits.matching import selects
from streaming.audits.ways import NOTHING_BETWEEN, Between


class Level(IntEnum):
    """How much of a stretch of matching messages an endpoint must get."""

    NONE = 0
    MAY = 1
    MIXED = 2
    MUST = 3


@dataclass(frozen=True, slots=True)
class Span:
    """Source offsets from `first` on, up to `last` or without end, that must be delivered."""

    first: int
    last: int | None = None

    def level(self, first: int, last: int) -> Level:
        """Return how the offsets from `first` to `last` stand to this span."""
        if last < self.first or (self.last is not None and first > self.last):
            return Level.MAY
        is_inside = self.first <= first and (self.last is None or last <= self.last)
        return Level.MUST if is_inside else Level.MIXED


@dataclass(frozen=True, slots=True)
class Claim:
    """What one subscription claims of one source.

    Attributes:
        filter: What it asks for.
        span: What must come, if any.
        between: What stands on the way.
        is_untaken: Whether it is owed from the moment on at which the origin's lane knows of it,
            and the lane does not.
        is_refusable: Whether it would be owed if no selector stood on the way, which may refuse it,
            or if it were known that it did not come: it may have been deleted unread. So may the
            ledger that told from where on it was owed.
        undecided: What is owed or not, by where the subscription ended: that is not known yet.
        until: Last offset that may come, where the subscription has ended and that is known.
        newest: Number of the newest of its filters: of bundles that were made before that is known,
            it may select a part. By default it is the oldest of all.
    """

    filter: str
    span: Span | None
    between: Between = NOTHING_BETWEEN
    is_untaken: bool = False
    is_refusable: bool = False
    newest: int = -1
    undecided: Span | None = None
    until: int | None = None

    @property
    def needed(self) -> tuple[str, ...]:
        """Return the filters that must all select what is claimed."""
        return (self.filter, *self.between.joins)

    def concerns(self, subject: str) -> bool:
        """Return whether messages of a valid subject are claimed."""
        return all(selects(one, subject) for one in self.needed) and not any(
            selects(one, subject) for one in self.between.kept
        )


def is_simple(claims: Sequence[Claim]) -> bool:
    """Return whether there is one claim, on which neither an end nor a selector bears."""
    if len(claims) != 1:
        return False
    claim, between = claims[0], claims[0].between
    is_open = claim.until is None and claim.undecided is None
    return is_open and not (claim.is_refusable or between.joins or between.kept)


def unowed(claim: Claim) -> Claim:
    """Return a claim with nothing owed: its messages may be delivered, and none must."""
    return replace(claim, span=None, undecided=None)


def unproven(claim: Claim, below: float) -> Sequence[Claim]:
    """Return what is claimed where nobody can tell of offsets below one whether all of it came.

    It may have come and been deleted before it was read, or it is not known whether it was owed.
    """
    if below == inf:
        return [replace(claim, span=None, undecided=None, is_refusable=True)]
    first, span = int(below), claim.span
    until = first - 1 if claim.until is None else min(first - 1, claim.until)
    if span is not None:
        is_over = span.last is not None and span.last < first
        span = None if is_over else Span(max(first, span.first), span.last)
    return [
        replace(claim, span=span),
        replace(claim, span=None, undecided=None, is_refusable=True, until=until),
    ]
