"""Planted bugs that no schedule of the swarm has shown: a test must find each."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mesh.transport.memory_faults import Call
from tests.component.worker import test_endpoint_limits as endpoint_limits
from tests.component.worker import test_lagging_takeover as lagging
from tests.mutations.cured import Shown, assert_found
from tests.mutations.hunt import MUTATIONS, UNSHOWN
from tests.unit.node import test_remembering as remembering


def a_worker_dies_before_letters_are_committed() -> None:
    endpoint_limits.test_a_crash_before_the_deletion_gives_nothing_up_twice(Call.COMMIT)


FOUND_BY: Mapping[str, Shown] = {
    "displaced-before-letters": a_worker_dies_before_letters_are_committed,
    "recalled-direct": lagging.test_a_filter_that_was_known_of_a_direct_endpoint_alone_is_recalled_too,
    "lagging-leader-keeps": remembering.test_who_has_read_less_than_the_lanes_route_by_keeps_nothing,
}


@pytest.mark.parametrize("name", UNSHOWN)
def test_a_bug_that_no_schedule_shows_would_be_found(name: str) -> None:
    """With the bug the test fails, and without it passes. Spec: K16, DESIGN 6."""
    [plant] = [one.plant for one in MUTATIONS if one.name == name]
    assert_found(plant, FOUND_BY[name])
