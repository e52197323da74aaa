"""Every planted bug of the tree layer breaks a random trial. Spec: tree_layer 0."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.mutations.patching import Mutation
from tests.mutations.tree_bugs import SCENE_BUGS, TREE_BUGS, TREE_KILLERS
from tests.sim.trees.trial import run_trial

MISFIT = (TypeError, AttributeError, NameError)
"""A planted bug that breaks the program itself shows nothing."""

SEARCH = 60
"""Where to look on, from the start, if a bug no longer shows where it used to."""


@pytest.mark.parametrize("mutation", TREE_BUGS, ids=lambda mutation: mutation.name)
def test_a_planted_bug_is_found(mutation: Mutation) -> None:
    """Else the trials would not find such a bug if somebody made it."""
    with mutation.planted():
        assert _breaks([TREE_KILLERS.get(mutation.name, 0), *range(SEARCH)]), mutation.wrong


@pytest.mark.parametrize(
    ("mutation", "scene"), SCENE_BUGS, ids=lambda one: one.name if isinstance(one, Mutation) else ""
)
def test_a_planted_bug_that_no_trial_shows_is_found_by_its_scene(
    mutation: Mutation, scene: Callable[[], None]
) -> None:
    """And the scene passes without it: it is a test of its own."""
    with mutation.planted(), pytest.raises(AssertionError):
        scene()


def test_without_a_planted_bug_the_same_trials_pass() -> None:
    """What shows the bugs is the bugs."""
    assert not _breaks(sorted({0, *TREE_KILLERS.values()}))


def _breaks(seeds: list[int]) -> bool:
    for seed in seeds:
        try:
            run_trial(seed, 9)
        except MISFIT:
            raise
        except Exception:  # noqa: BLE001 - a bug may also show as a crash
            return True
    return False
