"""Interest controls: a topology's own rules for interest, beside clients'. Spec: DESIGN 3."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ControlKind(StrEnum):
    """What a node does with the subjects of a filter.

    `static`: the node wants them, whether or not a client of it does. `local`: they cross no link
    of the node, in either direction; its own clients are served. Spec: UM-1, EMS-11.
    """

    STATIC = "static"
    LOCAL = "local"


@dataclass(frozen=True, slots=True, order=True)
class InterestControl:
    """One control at one node.

    Attributes:
        node: Where it is in force.
        kind: What it does.
        filter: To which subjects.
    """

    node: str
    kind: ControlKind
    filter: str

    def __str__(self) -> str:
        """Return `acme/private/> is local at ny1`, for people."""
        return f"{self.filter} is {self.kind} at {self.node}"
