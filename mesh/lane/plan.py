"""What becomes of frames, found once per subject table. Spec: K10."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mesh.core.routes import Route


@dataclass(frozen=True, slots=True)
class Plan:
    """What becomes of frames with one subject table that came one way.

    Attributes:
        subjects: The table.
        routes: Route of each subject of the table.
        only: The one route of all of them, or None if they part.
        delivers: Whether some of them go to an endpoint of this node.
    """

    subjects: Sequence[str]
    routes: Sequence[Route]
    only: Route | None
    delivers: bool
