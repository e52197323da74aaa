"""Every planted bug is found by the swarm, and soon. Spec: reliability.md 6."""

from __future__ import annotations

import pytest

from tests.mutations.__main__ import MUTATIONS, hunt
from tests.mutations.killers import KILLERS
from tests.mutations.patching import Mutation
from tests.sim.swarm.run import run_seed

SEARCH = range(60)
"""Where to look on if a bug has become rarer in the schedules that used to show it."""


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_planted_bug_is_found(mutation: Mutation) -> None:
    """Else the swarm would not find such a bug if somebody made it."""
    assert hunt(mutation, [*KILLERS.get(mutation.name, ()), *SEARCH]) is not None, mutation.wrong


def test_without_a_planted_bug_the_same_schedules_pass() -> None:
    """What shows the bugs is the bugs."""
    seeds = sorted({seed for seeds in KILLERS.values() for seed in seeds})
    assert [result.detail for result in map(run_seed, seeds) if result.rule] == []


def test_a_bug_is_taken_out_again() -> None:
    """Every attribute is as it was, whatever the test in between did."""
    for mutation in MUTATIONS:
        with mutation.planted():
            pass
    assert [seed for seed in range(5) if run_seed(seed).rule] == []


def test_killers_are_of_bugs_that_exist() -> None:
    """And each bug has a name of its own."""
    names = [mutation.name for mutation in MUTATIONS]
    assert len(set(names)) == len(names)
    assert set(KILLERS) <= set(names)
