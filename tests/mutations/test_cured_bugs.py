"""Bugs that were cured and that the swarm does not draw: planted again, a test must find each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mesh.errors import MeshError
from mesh.lab.backend import SimulatedBackend
from mesh.lab.run import run_scenario
from mesh.lab.scenario import load_scenario
from mesh.node.demands import Demands
from mesh.operate.applying import Applying
from mesh.runtime.lanes.owned import Lanes
from tests.component.runtime import test_full_links as full_links
from tests.mutations.patching import Mutation, Patches
from tests.sim import test_queue_dead_members as dead_members


def one_position_for_two(patches: Patches) -> None:
    def wrapper(read_positions):
        def wrong(self, neighbour):
            told = read_positions(self, neighbour)
            return {at: replace(one, read=one.needed) for at, one in told.items()}

        return wrong

    patches.wrap(Lanes, "read_positions", wrapper)


def demands_never_end(patches: Patches) -> None:
    patches.put(Demands, "expire", lambda *_: None)


def nobody_is_excused(patches: Patches) -> None:
    patches.put(Applying, "_is_excused", lambda *_: False)


def a_ring_is_full() -> None:
    full_links.test_links_in_a_ring_that_were_full_all_round_flow_again()


def a_slow_endpoint_is_full() -> None:
    full_links.test_a_slow_endpoint_behind_a_limited_link_waits_alone()


def a_member_dies() -> None:
    links = ("a-h", "h-c", "h-d")
    dead_members.test_a_dead_member_starves_nobody(dead_members.ANY, links, "cd", "c", "d")


def a_change_beside_a_cut() -> None:
    scenario = load_scenario(Path(__file__).with_name("apply_beside_a_cut.yaml"))
    backend = SimulatedBackend(scenario.topology, scenario.seed)
    result = run_scenario(scenario, backend, backend_name="sim")
    assert [step for step in result["steps"] if not step["ok"]] == []


POSITIONS = Mutation(
    "one-position", "read and no longer needed are one number", one_position_for_two
)
DEMANDS = Mutation("demands-never-end", "what a dead member wanted stays", demands_never_end)
EXCUSES = Mutation("nobody-excused", "a change waits for links that are down", nobody_is_excused)


@pytest.mark.parametrize(
    ("mutation", "shown"),
    [
        pytest.param(POSITIONS, a_ring_is_full, id="one-position, in a ring"),
        pytest.param(POSITIONS, a_slow_endpoint_is_full, id="one-position, behind an endpoint"),
        pytest.param(DEMANDS, a_member_dies, id="demands-never-end"),
        pytest.param(EXCUSES, a_change_beside_a_cut, id="nobody-excused"),
    ],
)
def test_a_bug_that_was_cured_would_be_found(mutation: Mutation, shown: Callable[[], None]) -> None:
    """With the bug the test fails, and without it passes. Spec: K5, K28, DESIGN 6."""
    shown()
    with mutation.planted(), pytest.raises((AssertionError, MeshError)):
        shown()
