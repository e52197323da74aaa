"""What a schedule is called: its family, and its number there. `changes/17` decides everything."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

BROOD = 10
"""So many numbers that follow each other are a brood: most of them begin on one mesh at rest."""
UNFORKED = 2
"""So many of a brood begin with a mesh that is not there yet: starts go wrong too."""


class Family(StrEnum):
    """What schedules are about.

    Attributes:
        PLAIN: Topologies without joins; any fault but losses.
        JOINS: Topologies with joins.
        LOSSES: Logs lose records on purpose, links and endpoints have limits.
        CHANGES: Operators change the topology under load.
        STRANGERS: Others write where only the mesh should; brokers refuse, and lead nowhere.
        OUTAGES: Brokers answer late, control topics lose what they held, links are full.
        DRILLS: By hand; the number is 1000 times that of the drill, plus which order of turns.
    """

    PLAIN = "plain"
    JOINS = "joins"
    LOSSES = "losses"
    CHANGES = "changes"
    STRANGERS = "strangers"
    OUTAGES = "outages"
    DRILLS = "drills"


DRAWN = tuple(family for family in Family if family is not Family.DRILLS)


@dataclass(frozen=True, slots=True, order=True)
class Seed:
    """The name of one schedule.

    Raises:
        ValueError: `parse` was given something else.
    """

    family: Family
    number: int

    def __str__(self) -> str:
        return f"{self.family}/{self.number}"

    @classmethod
    def parse(cls, text: str) -> Seed:
        """Return what `str` has made a text of."""
        family, _, number = text.partition("/")
        if family not in list(Family):
            raise ValueError(f"no family {family!r}: there are {', '.join(Family)}")
        if not number.isascii() or not number.isdigit():
            raise ValueError(f"a schedule is named as {family}/17, not {text!r}")
        return cls(Family(family), int(number))

    @property
    def brood(self) -> int:
        """Which brood it belongs to."""
        return self.number // BROOD

    @property
    def is_forked(self) -> bool:
        """Whether it begins on the mesh of its brood, which is at rest."""
        return self.family is not Family.DRILLS and self.number % BROOD >= UNFORKED

    @property
    def has_joins(self) -> bool:
        """Whether its topology has joins: in every second brood of all but plain ones."""
        return self.family is Family.JOINS or (
            self.family is not Family.PLAIN and self.brood % 2 == 1
        )

    @property
    def is_changing(self) -> bool:
        """Whether operators change its topology: also in every third brood of outages."""
        return self.family is Family.CHANGES or (
            self.family is Family.OUTAGES and self.brood % 3 == 2
        )


def seeds(family: Family, numbers: Iterable[int]) -> list[Seed]:
    """Return the schedules of a family that have these numbers."""
    return [Seed(family, number) for number in numbers]
