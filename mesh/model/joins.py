"""Joins: links that carry messages without interest, one way each. Spec: DESIGN 3, UM-5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

JOIN_HOPS_DEFAULT = 10
"""Longest row of joins, less one, unless a join says otherwise. Spec: DESIGN 3, UM-10."""

JOIN_HOPS_MAX = 64

ANYTHING = ">"
"""Filter of a join without one: it selects every subject that clients may publish to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """One direction of a link between two nodes that one or two joins make.

    Attributes:
        zone: Name of the zone that the join is.
        source: Node that messages leave.
        target: Node that they reach.
        filter: Filter of the messages.
        hops: At most this many joins follow the first in any row that this one is in.
    """

    zone: str
    source: str
    target: str
    filter: str = ANYTHING
    hops: int = JOIN_HOPS_DEFAULT


class JoinRow(NamedTuple):
    """Joins crossed in a row, in either direction: it decides whether one more may follow.

    A tuple, because every frame looks up its plan by how it came.

    Attributes:
        joins: How many; any other link ends the row.
        hops_max: The smallest `hops` among them.

    Spec: UM-10.
    """

    joins: int = 0
    hops_max: int = JOIN_HOPS_MAX

    def __str__(self) -> str:
        """Return `2.10`, as in record keys."""
        return f"{self.joins}.{self.hops_max}"

    @classmethod
    def parse(cls, text: str) -> JoinRow:
        """Return the row that ``str`` wrote.

        Raises:
            ValueError: The text is not a row.
        """
        joins, _, hops_max = text.partition(".")
        return cls(int(joins), int(hops_max))


NO_JOINS = JoinRow()
