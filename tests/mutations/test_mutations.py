"""Every planted bug is found by the swarm, and soon. Spec: reliability.md 6."""

from __future__ import annotations

import pytest

from tests.mutations.__main__ import main
from tests.mutations.hunt import MUTATIONS, UNSHOWN, read_killers, shown
from tests.mutations.patching import Mutation
from tests.sim.swarm.run import run_seeds
from tests.sim.swarm.seeds import Family, seeds


@pytest.mark.parametrize(
    "mutation",
    [one for one in MUTATIONS if one.name not in UNSHOWN],
    ids=lambda mutation: mutation.name,
)
def test_a_planted_bug_is_found(mutation: Mutation) -> None:
    """Else the swarm would not find such a bug if somebody made it.

    If the schedule that is kept shows it no more, `python -m tests.mutations --keep --only NAME`
    looks for another one, and says how rare the bug has become.
    """
    killer = read_killers()[mutation.name]
    rule = shown(mutation, killer.seed)
    assert rule, f"{killer.seed} does not show it any more: {mutation.wrong}"


def test_without_a_planted_bug_the_same_schedules_pass() -> None:
    """What shows the bugs is the bugs."""
    kept = sorted({one.seed for one in read_killers().values()})
    assert [result.detail for result in run_seeds(kept) if result.rule] == []


def test_a_bug_is_taken_out_again() -> None:
    """Every attribute is as it was, whatever the test in between did."""
    for mutation in MUTATIONS:
        with mutation.planted():
            pass
    assert [one.seed for one in run_seeds(seeds(Family.PLAIN, range(5))) if one.rule] == []


def test_killers_are_of_bugs_that_exist() -> None:
    """And each bug has a name of its own."""
    names = [mutation.name for mutation in MUTATIONS]
    assert len(set(names)) == len(names)
    assert set(read_killers()) == set(names) - set(UNSHOWN)
    assert set(UNSHOWN) <= set(names)


def test_the_command_says_how_many_schedules_a_bug_took(capfd: pytest.CaptureFixture[str]) -> None:
    """One that no bug fits is refused in a line."""
    assert main(["--only", "position-one-short"]) == 0
    told = capfd.readouterr().out
    assert "position-one-short" in told
    assert "schedules until then: median" in told
    with pytest.raises(SystemExit) as ended:
        main(["--only", "no-such-bug"])
    assert ended.value.code == 2
    assert capfd.readouterr().err.count("\n") == 1
