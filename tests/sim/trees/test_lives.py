"""Applications that live, ask, are granted and die at random. Spec: tree_layer 8, 13."""

import pytest

from tests.sim.trees.lives import Lives

SEEDS = 60


@pytest.mark.parametrize("quarter", range(4))
def test_what_applications_hold_is_what_they_asked_for_and_heard_of(quarter: int) -> None:
    """Whatever crossed on the way: nothing is held unasked, nothing asked for is lost unheard."""
    for seed in range(quarter, SEEDS, 4):
        Lives(seed).live()
