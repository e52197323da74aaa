"""How soon `MeshContainers` serves: three nodes on three Kafka clusters, with the images there."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median

from mesh.testing.containers import MeshContainers
from tests.bench.command import at_least, carry_out, parser_of, say
from tests.bench.goals import Goal, goal_line

TOPOLOGY = {
    "kafka": {"tokyo": {}, "newyork": {}, "paris": {}},
    "nodes": {"tk1": {"kafka": "tokyo"}, "ny1": {"kafka": "newyork"}, "pa1": {"kafka": "paris"}},
    "zones": {"WORLD": {"kind": "multi-hop", "links": [["tk1", "ny1"], ["ny1", "pa1"]]}},
}


@dataclass(frozen=True, slots=True)
class Found:
    """What was measured.

    Attributes:
        ready_s: From nothing to nodes that serve, of each start.
        ended_s: How long each took to end.
    """

    ready_s: Sequence[float]
    ended_s: Sequence[float]

    def goals(self) -> Sequence[Goal]:
        """Return what is promised."""
        return [Goal("three nodes ready, p50, s", 30, median(self.ready_s))]

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        return {**asdict(self), "goals": [goal.as_json() for goal in self.goals()]}

    def rows(self) -> Sequence[str]:
        """Return it as lines for people."""
        ready, ended = (
            " ".join(f"{one:.1f}" for one in some) for some in (self.ready_s, self.ended_s)
        )
        return [
            *(goal_line(goal.as_json()) for goal in self.goals()),
            f"  ready after {ready} s",
            f"  ended after {ended} s",
        ]


def measure(_directory: Path, *, starts: int) -> Found:
    """Start and end meshes, one after the other."""
    ready_s: list[float] = []
    ended_s: list[float] = []
    for number in range(1, starts + 1):
        say(f"start {number} of {starts}")
        begun_s = time.monotonic()
        with MeshContainers(TOPOLOGY):
            served_s = time.monotonic()
        ready_s.append(served_s - begun_s)
        ended_s.append(time.monotonic() - served_s)
    return Found(ready_s, ended_s)


def main(arguments: Sequence[str]) -> int:
    """Measure and tell; return the exit code."""
    parser = parser_of("containers", __doc__)
    parser.add_argument("--starts", type=at_least(1), default=5, help="one after the other")
    options = parser.parse_args(arguments)
    run = partial(measure, starts=options.starts)
    return carry_out(options, run, Found.rows, Found.as_json, Found.goals)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
