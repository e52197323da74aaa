"""A storm's schedule: the same for the same seed, and never two faults on one target."""

from __future__ import annotations

from collections import Counter

import pytest

from mesh.config.topology_file import load_topology
from mesh.lab.schedule import LENGTHS_MS, moments, storm_schedule
from mesh.lab.steps import FAULTS_DEFAULT, Kill, Storm
from tests.kafka.fleets import EXAMPLES

TOPOLOGY = load_topology(EXAMPLES.parent / "topologies" / "storm.yaml")
LONG = Storm(seed=5, seconds=3_600, every_s=1)


def test_same_seed_same_storm() -> None:
    assert storm_schedule(TOPOLOGY, LONG) == storm_schedule(TOPOLOGY, LONG)
    other = LONG.model_copy(update={"seed": 6})
    assert storm_schedule(TOPOLOGY, LONG) != storm_schedule(TOPOLOGY, other)


def test_the_rate_of_messages_changes_no_fault() -> None:
    other = LONG.model_copy(update={"rate": 7, "direct": 0.5})
    assert storm_schedule(TOPOLOGY, LONG) == storm_schedule(TOPOLOGY, other)


@pytest.mark.parametrize("seed", range(20))
def test_no_target_is_hit_twice_at_a_time_and_everything_ends(seed: int) -> None:
    step = Storm(seed=seed, seconds=60, every_s=0.3)
    busy: dict[str, int] = {}
    for fault in storm_schedule(TOPOLOGY, step):
        assert fault.at_ms > busy.get(fault.target, -1)
        assert fault.at_ms < fault.until_ms <= 60_000
        assert fault.until_ms - fault.at_ms <= LENGTHS_MS[fault.kind][1]
        busy[fault.target] = fault.until_ms


def test_all_kinds_come_and_a_quarter_of_the_slots_is_calm() -> None:
    faults = storm_schedule(TOPOLOGY, Storm(seed=1, seconds=40_000, every_s=10))
    assert set(Counter(fault.kind for fault in faults)) == set(FAULTS_DEFAULT)
    assert 0.70 < len(faults) / 4_000 < 0.80


def test_only_the_kinds_asked_for_come() -> None:
    step = LONG.model_copy(update={"faults": ["clock", "cut"]})
    assert {fault.kind for fault in storm_schedule(TOPOLOGY, step)} == {"clock", "cut"}


def test_moments_are_in_order_and_every_beginning_has_its_end() -> None:
    faults = storm_schedule(TOPOLOGY, LONG)
    found = moments(faults)
    assert [one.at_ms for one in found] == sorted(one.at_ms for one in found)
    words = Counter(one.step.word for one in found)
    assert words["kill"] + words["stop"] == words["start"]
    assert words["pause"] == words["resume"]
    assert words["cut"] + words["slow"] == words["heal"]
    assert words["kill_broker"] == words["start_broker"]


def test_one_worker_of_several_may_be_killed_alone() -> None:
    step = LONG.model_copy(update={"faults": ["kill"]})
    alone = storm_schedule(TOPOLOGY, step)
    assert {fault.begin.worker for fault in alone if isinstance(fault.begin, Kill)} == {None}
    several = storm_schedule(TOPOLOGY, step, {"tk1": 2})
    of_tk1 = [fault.begin for fault in several if fault.target == "tk1"]
    assert {one.worker for one in of_tk1 if isinstance(one, Kill)} == {None, 0, 1}
