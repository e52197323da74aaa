"""What the auditor finds, in one word each: the single list for all readers of its findings.

Which rule a finding says is broken, and what to do about it, is in `streaming.audits.rules`.
Spec: DESIGN 7.
"""

from __future__ import annotations

from enum import Enum, StrEnum, auto
from typing import Self


class Bearing(Enum):
    """What a finding says about the mesh."""

    FAULT = auto()
    """It has broken a rule."""
    PARTS = auto()
    """It has come apart, or together: that is nobody's fault."""
    WAIT = auto()
    """Something is stuck, or could not be judged: nothing is known to be wrong."""


class FindingKind(StrEnum):
    """A kind of finding: a fault, unless it says otherwise."""

    bearing: Bearing

    LOOP = "loop"
    DUPLICATE = "duplicate"
    MISSING = "missing"
    UNEXPECTED = "unexpected"
    GAP = "gap"
    DISORDER = "disorder"
    UNPLANNED_PATH = "unplanned-path"
    CORRUPT = "corrupt"
    FORGED_ORIGIN = "forged-origin"
    STALE_INTEREST = "stale-interest"
    UNACCOUNTED = "unaccounted"
    NEEDLESS_COPY = "needless-copy"
    STALLED = "stalled", Bearing.WAIT
    SILENT_LINK = "silent-link", Bearing.WAIT
    UNPROVEN = "unproven", Bearing.WAIT
    SPLIT = "split", Bearing.PARTS
    HEAL = "heal", Bearing.PARTS
    COLOURS_DIFFER = "colours-differ"

    def __new__(cls, word: str, bearing: Bearing = Bearing.FAULT) -> Self:
        """Make the kind of a word."""
        kind = str.__new__(cls, word)
        kind._value_, kind.bearing = word, bearing
        return kind

    @property
    def is_news(self) -> bool:
        """Whether it is no fault of the mesh."""
        return self.bearing is not Bearing.FAULT


NEWS = frozenset(kind for kind in FindingKind if kind.is_news)
"""Findings that are no faults of the mesh."""

WAITS = frozenset(kind for kind in FindingKind if kind.bearing is Bearing.WAIT)
"""Of these, the ones that say that something is stuck, or could not be judged."""
