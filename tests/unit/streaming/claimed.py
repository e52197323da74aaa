"""How much an endpoint must get of one subject, by what it claims."""

from __future__ import annotations

from collections.abc import Sequence

from streaming.audits.block import SubjectTally
from streaming.audits.claims import Claim, Level
from streaming.audits.offers import Offer
from streaming.tables.digest import NOTHING


def level_for(claims: Sequence[Claim], subject: str, first: int, last: int) -> Level:
    """Return it, of messages between two offsets."""
    offer = Offer(alone={subject: [SubjectTally(NOTHING, first, last)]})
    return max((level for level, _ in offer.levels(claims)), default=Level.NONE)
