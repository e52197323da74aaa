"""Bugs of changes of the topology, and two starts at once: planted again, a test must find each.

Spec: K28.
"""

from __future__ import annotations

import itertools

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.model import control
from mesh.model.control import Stage
from mesh.model.topics import TopicNames
from mesh.node import machine
from mesh.operate.changes import driver, founding
from tests.component.in_memory_mesh import CHAIN, Mesh
from tests.component.operate import test_in_force as in_force
from tests.mutations.cured import Cured, Plant, Shown, assert_found
from tests.mutations.patching import Patches
from tests.sim import test_late_abort as late_abort
from tests.sim import test_other_files as other_files

CURED = Cured()


def a_new_node_has_other_lanes() -> None:
    other_files.test_it_is_told_before_anything_is_written({"lanes": 2})


@CURED.found_by(a_new_node_has_other_lanes)
def what_a_new_node_was_made_with_is_not_looked_at(patches: Patches) -> None:
    patches.put(driver, "made_otherwise", lambda *_: ())


@CURED.found_by(late_abort.test_a_switch_is_not_taken_back)
def an_abort_is_newer_than_a_switch(patches: Patches) -> None:
    order = [Stage.HOLD, Stage.SWITCH, Stage.ABORT, Stage.RUN]
    for module in (control, machine):
        patches.put(module, "change_version", lambda number, stage: (number, order.index(stage)))


def a_mesh_is_started_from_another_file() -> None:
    mesh = Mesh(topology_from_mapping(CHAIN))
    in_force.test_another_topology_is_never_written_over_what_is_in_force(mesh)


@CURED.found_by(a_mesh_is_started_from_another_file)
def others_are_written_over(patches: Patches) -> None:
    patches.put(founding, "_refuse_others", lambda *_: None)


def two_start_a_mesh_at_once() -> None:
    in_force.test_of_two_who_start_a_mesh_from_different_files_one_comes_first({"k": "l", "l": "k"})


@CURED.found_by(two_start_a_mesh_at_once)
def starters_claim_nothing(patches: Patches) -> None:
    own = (f"mesh.config.change.{number}" for number in itertools.count())
    patches.put(TopicNames, "change_transactions", lambda _: next(own))


@pytest.mark.parametrize(("plant", "shown"), CURED.cases)
def test_a_bug_of_changes_would_be_found(plant: Plant, shown: Shown) -> None:
    """With the bug the test fails, and without it passes. Spec: K28."""
    assert_found(plant, shown)
