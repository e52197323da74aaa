"""Look for a schedule that shows a planted bug, where such bugs show."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutations.change_bugs import CHANGE_BUGS
from tests.mutations.interest_bugs import INTEREST_BUGS
from tests.mutations.join_bugs import JOIN_BUGS
from tests.mutations.lane_bugs import LANE_BUGS
from tests.mutations.loss_bugs import LOSS_BUGS
from tests.mutations.outage_bugs import OUTAGE_BUGS
from tests.mutations.patching import Mutation
from tests.mutations.stranger_bugs import STRANGER_BUGS
from tests.sim.swarm.drills import drill_seeds
from tests.sim.swarm.run import Result, run_seed, run_seeds
from tests.sim.swarm.seeds import BROOD, Family, Seed, seeds

WHERE: Mapping[Family, Sequence[Mutation]] = {
    Family.PLAIN: (*LANE_BUGS, *INTEREST_BUGS),
    Family.JOINS: JOIN_BUGS,
    Family.LOSSES: LOSS_BUGS,
    Family.CHANGES: CHANGE_BUGS,
    Family.STRANGERS: STRANGER_BUGS,
    Family.OUTAGES: OUTAGE_BUGS,
}
"""In which family bugs are looked for first; those of the plain one in the drills before."""
MUTATIONS = tuple(mutation for some in WHERE.values() for mutation in some)
UNSHOWN = ("displaced-before-letters", "recalled-direct", "lagging-leader-keeps")
"""Bugs that no schedule has shown yet since schedules are drawn as now: the command hunts them, and
`test_unshown.py` names a test that each makes fail."""
SEEDS_MAX = 2_000
DRILLS_EACH = 10
MISFITS = tuple(f"worker raised {one}" for one in ("TypeError", "AttributeError", "NameError"))
"""A planted bug that breaks the program itself shows nothing."""
KILLERS_FILE = Path(__file__).with_name("killers.json")


@dataclass(frozen=True, slots=True)
class Found:
    """How a planted bug showed itself: the schedule, the rule it broke, after how many others."""

    seed: Seed
    rule: str
    tried: int


def hunt(mutation: Mutation, where: Iterable[Seed]) -> Found | None:
    """Run schedules with a planted bug until one shows it; None if none does.

    Raises:
        TypeError: The bug does not fit the product any more.
    """
    left = iter(where)
    tried = 0
    while True:
        with mutation.planted():
            for result in run_seeds(left):
                tried += 1
                if _breaks(mutation, result):
                    break
            else:
                return None
        if not run_seed(result.seed).rule:  # else it shows another bug, or one of the swarm
            return Found(result.seed, result.rule, tried)


def shown(mutation: Mutation, seed: Seed) -> str:
    """Return which rule a schedule breaks with a planted bug; empty if none.

    Raises:
        TypeError: The bug does not fit the product any more.
    """
    with mutation.planted():
        result = next(run_seeds([seed]))
    return result.rule if _breaks(mutation, result) else ""


def _breaks(mutation: Mutation, result: Result) -> bool:
    if result.rule in MISFITS:
        raise TypeError(f"{mutation.name} does not fit any more: {result.detail}")
    return bool(result.rule)


def places(mutation: Mutation, first: int = 0) -> Iterator[Seed]:
    """Yield where to look for a bug, from a number on."""
    family = next(family for family, some in WHERE.items() if mutation in some)
    if family is not Family.PLAIN:
        yield from seeds(family, range(first, first + SEEDS_MAX))
        return
    if not first:
        yield from drill_seeds(DRILLS_EACH)
    for number in range(first, first + SEEDS_MAX // 2, BROOD):
        for one in (Family.PLAIN, Family.JOINS):
            yield from seeds(one, range(number, number + BROOD))


def read_killers() -> dict[str, Found]:
    """Return the schedules that show each bug, and after how many others they were found."""
    kept = json.loads(KILLERS_FILE.read_text())
    return {
        name: Found(Seed.parse(one["seed"]), one["rule"], one["tried"])
        for name, one in kept.items()
    }


def write_killers(killers: Mapping[str, Found]) -> None:
    """Keep them for the test."""
    told = {
        name: {"seed": str(one.seed), "rule": one.rule, "tried": one.tried}
        for name, one in sorted(killers.items())
    }
    KILLERS_FILE.write_text(json.dumps(told, indent=1) + "\n")
