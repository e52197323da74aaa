"""What a measurement should find, and whether it did; what was not measured is not met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Goal:
    """A promise: `found` is at most (or at least) `limit`; None was not measured."""

    name: str
    limit: float
    found: float | None
    at_least: bool = False

    @property
    def is_met(self) -> bool | None:
        """Return whether it is kept."""
        if self.found is None:
            return None
        return self.found >= self.limit if self.at_least else self.found <= self.limit

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        return {**asdict(self), "met": self.is_met}


def are_met(goals: Sequence[Goal]) -> bool:
    """Return whether all are kept; one that was not measured is not."""
    return all(goal.is_met for goal in goals)


def goal_line(goal: Mapping[str, Any]) -> str:
    """Return one goal, as `Goal.as_json` gives it, as a line for people."""
    found = "-" if goal["found"] is None else f"{goal['found']:.3g}"
    sign = ">=" if goal["at_least"] else "<="
    judged = {True: "met", False: "MISSED", None: "NOT MEASURED"}[goal["met"]]
    return f"  {goal['name']:<34}{found:>8} {sign} {goal['limit']:<6g}{judged}"
