"""`python -m tests.mutations [--minutes M] [--only NAME]`: is each planted bug found, and how soon?"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass

from tests.mutations.change_bugs import CHANGE_BUGS
from tests.mutations.interest_bugs import INTEREST_BUGS
from tests.mutations.join_bugs import JOIN_BUGS
from tests.mutations.lane_bugs import LANE_BUGS
from tests.mutations.loss_bugs import LOSS_BUGS
from tests.mutations.patching import Mutation
from tests.sim.swarm.__main__ import say
from tests.sim.swarm.drills import drill_seeds
from tests.sim.swarm.plan import CHANGING
from tests.sim.swarm.run import run_seed

MUTATIONS = (*LANE_BUGS, *INTEREST_BUGS, *JOIN_BUGS, *LOSS_BUGS, *CHANGE_BUGS)
SEEDS_MAX = 3_000
LOSSY_FIRST = 8_000
"""Where seeds begin in whose schedules something is lost on purpose."""
DRILLS_EACH = 10


@dataclass(frozen=True, slots=True)
class Found:
    """How a planted bug showed itself: the seed, the rule it broke, after how many schedules."""

    seed: int
    rule: str
    detail: str
    tried: int


MISFITS = tuple(f"worker raised {one}" for one in ("TypeError", "AttributeError", "NameError"))
"""A planted bug that breaks the program itself shows nothing."""


def hunt(mutation: Mutation, seeds: Iterable[int], *, seconds: float = 60) -> Found | None:
    """Run schedules with a planted bug until one breaks a rule; None if none does in time."""
    deadline_s = time.monotonic() + seconds
    with mutation.planted():
        for tried, seed in enumerate(seeds, 1):
            result = run_seed(seed)
            if result.rule in MISFITS:
                raise TypeError(f"{mutation.name} does not fit the product any more: {result.rule}")
            if result.rule:
                return Found(seed, result.rule, result.detail, tried)
            if time.monotonic() > deadline_s:
                return None
    return None


def main() -> int:
    """Hunt each bug in the drills and from seed 0 on; exit 1 if one gets away."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--first", type=int, help="seed to begin with")
    options = parser.parse_args()
    chosen = [one for one in MUTATIONS if options.only in one.name]
    seconds = 60 * options.minutes / max(1, len(chosen))
    escaped = 0
    for mutation in chosen:
        began_s = time.monotonic()
        seeds = [*drill_seeds(DRILLS_EACH), *range(SEEDS_MAX)]
        if mutation in LOSS_BUGS:
            seeds = list(range(LOSSY_FIRST, LOSSY_FIRST + 1_000))
        if mutation in CHANGE_BUGS:
            seeds = list(CHANGING[:SEEDS_MAX])
        if options.first is not None:
            seeds = list(range(options.first, options.first + SEEDS_MAX))
        found = hunt(mutation, seeds, seconds=seconds)
        took_s = time.monotonic() - began_s
        if found is None:
            escaped += 1
            told = "NOT FOUND"
        else:
            told = f"seed {found.seed} after {found.tried} schedules: {found.rule}"
        say(f"{mutation.name:26s} {took_s:6.1f} s  {told}  ({mutation.wrong})")
    say(f"{len(chosen) - escaped} of {len(chosen)} planted bugs found")
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main())
