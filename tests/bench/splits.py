"""How soon the auditor finds a split and its end, by its own rules and drawn micro-batches.

Nodes beat once a second; the auditor reads each Kafka cluster in micro-batches that take as long as
is drawn, knows what was written before one began when it ends, and judges each second. No Spark
runs: what it takes is in the lengths, from `--shortest` to `--longest` seconds.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.bench.command import at_least, carry_out, parser_of
from tests.bench.goals import Goal, goal_line
from tests.bench.quiet import percentiles
from tests.unit.streaming.busy_mesh import BusyMesh

LIMIT_S = 20
REST_S = (60, 120)
"""How long a mesh is left alone between a cut and a heal."""

WAIT_S = 600
CUTS = (50, 95, 100)


@dataclass(frozen=True, slots=True)
class Found:
    """Seconds from each cut to its `split`, and from each heal to its `heal`."""

    split_s: Sequence[int]
    heal_s: Sequence[int]

    def goals(self) -> Sequence[Goal]:
        """Return what is promised."""
        found = {"split": self.split_s, "heal": self.heal_s}
        return [
            Goal(f"{name} found, s, p95", LIMIT_S, percentiles(some, CUTS)["p95"])
            for name, some in found.items()
        ]

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        return {
            "split_s": percentiles(self.split_s, CUTS),
            "heal_s": percentiles(self.heal_s, CUTS),
            "goals": [goal.as_json() for goal in self.goals()],
        }

    def rows(self) -> Sequence[str]:
        """Return it as lines for people."""
        return [
            f"split, s  {percentiles(self.split_s, CUTS)}",
            f"heal, s   {percentiles(self.heal_s, CUTS)}",
            *(goal_line(goal.as_json()) for goal in self.goals()),
        ]


def measure(_: Path, *, cuts: int, shortest: int, longest: int, seed: int) -> Found:
    """Cut and heal a mesh again and again; each batch takes as long as is drawn."""
    draw = random.Random(seed)
    lasts = [[draw.randint(shortest, longest) for _ in range(997)] for _ in range(2)]
    mesh = BusyMesh(lasts)
    mesh.run(REST_S[0])
    found: dict[bool, list[int]] = {True: [], False: []}
    for _ in range(cuts):
        for is_cut in (True, False):
            before = len(mesh.found)
            for second in range(1, WAIT_S):
                mesh.run(1, is_cut=is_cut)
                if len(mesh.found) > before:
                    found[is_cut].append(second)
                    break
            mesh.run(draw.randint(*REST_S), is_cut=is_cut)
    return Found(found[True], found[False])


def main(arguments: Sequence[str]) -> int:
    """Measure and tell; return the exit code."""
    parser = parser_of("splits", __doc__)
    parser.add_argument("--cuts", type=at_least(1), default=200)
    parser.add_argument("--shortest", type=at_least(1), default=1, help="batch, s")
    parser.add_argument("--longest", type=at_least(1), default=4, help="batch, s")
    parser.add_argument("--seed", type=at_least(0), default=1)
    options = parser.parse_args(arguments)
    run = partial(
        measure,
        cuts=options.cuts,
        shortest=options.shortest,
        longest=max(options.shortest, options.longest),
        seed=options.seed,
    )
    return carry_out(options, run, Found.rows, Found.as_json, Found.goals)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
