"""Bugs that were cured and that the swarm does not draw: planted again, a test must find each."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.errors import MeshError
from mesh.model.topics import TopicNames
from mesh.node.demands import Demands
from mesh.node.neighbour import Neighbour
from mesh.operate import founding
from mesh.runtime.control import leadership
from mesh.runtime.control.recalling import Recalling
from mesh.runtime.topics.readership import Readership
from tests.component.in_memory_mesh import CHAIN, Mesh
from tests.component.operate import test_in_force as in_force
from tests.component.runtime import test_control_anew as control_anew
from tests.component.runtime import test_retention as retention
from tests.component.runtime.conftest import SmallMesh
from tests.mutations.patching import Mutation, Patches
from tests.sim import test_queue_dead_members as dead_members


def demands_never_end(patches: Patches) -> None:
    patches.put(Demands, "expire", lambda *_: None)


def old_marks_prove(patches: Patches) -> None:
    def wrapper(begin_again):
        def wrong(self, **said):
            begin_again(self, **said)
            self.is_read_again = False

        return wrong

    patches.wrap(Neighbour, "begin_again", wrapper)


def epochs_begin_again(patches: Patches) -> None:
    patches.put(leadership, "read_tail", lambda *_: ())


def gone_subscriptions_are_awaited(patches: Patches) -> None:
    patches.put(Recalling, "_heed_clients", lambda *_: None)


def others_are_written_over(patches: Patches) -> None:
    patches.put(founding, "_refuse_others", lambda *_: None)


def starters_claim_nothing(patches: Patches) -> None:
    own = (f"mesh.config.change.{number}" for number in itertools.count())
    patches.put(TopicNames, "change_transactions", lambda _: next(own))


def groups_that_fell_silent_are_forgotten(patches: Patches) -> None:
    def wrapper(passed):
        def wrong(self, admin, topics):
            self._known.clear()
            return passed(self, admin, topics)

        return wrong

    patches.wrap(Readership, "passed", wrapper)


def a_mesh_is_started_from_another_file() -> None:
    mesh = Mesh(topology_from_mapping(CHAIN))
    in_force.test_another_topology_is_never_written_over_what_is_in_force(mesh)


def two_start_a_mesh_at_once() -> None:
    in_force.test_of_two_who_start_a_mesh_from_different_files_one_comes_first({"k": "l", "l": "k"})


def a_group_falls_silent() -> None:
    retention.test_a_group_that_is_hidden_or_has_lost_its_offsets_keeps_what_it_may_want(
        SmallMesh()
    )


def offers_are_read_again() -> None:
    control_anew.test_nothing_is_missed_while_offers_are_read_again(SmallMesh())


def a_node_starts_with_another_control_topic() -> None:
    control_anew.test_epochs_rise_when_the_control_topic_is_another_one(SmallMesh())


def clients_are_made_again_while_nobody_is_there() -> None:
    when = "while nobody is there"
    control_anew.test_a_clients_topic_made_anew_is_read(SmallMesh(), when)


def a_member_dies() -> None:
    links = ("a-h", "h-c", "h-d")
    dead_members.test_a_dead_member_starves_nobody(dead_members.ANY, links, "cd", "c", "d")


DEMANDS = Mutation("demands-never-end", "what a dead member wanted stays", demands_never_end)
OLD_MARKS = Mutation("old-marks-prove", "marks of long ago end what came later", old_marks_prove)
EPOCHS = Mutation("epochs-begin-again", "another control topic, epoch 1 again", epochs_begin_again)
OTHERS = Mutation("others-written-over", "a start writes over another", others_are_written_over)
CLAIMS = Mutation("claims-nothing", "two starts do not claim", starters_claim_nothing)
SILENT = Mutation(
    "silent-forgotten", "groups without offsets want nothing", groups_that_fell_silent_are_forgotten
)
GONE = Mutation("gone-awaited", "a lane waits for lost records", gone_subscriptions_are_awaited)


@pytest.mark.parametrize(
    ("mutation", "shown"),
    [
        pytest.param(DEMANDS, a_member_dies, id="demands-never-end"),
        pytest.param(OLD_MARKS, offers_are_read_again, id="old-marks-prove"),
        pytest.param(EPOCHS, a_node_starts_with_another_control_topic, id="epochs-begin-again"),
        pytest.param(GONE, clients_are_made_again_while_nobody_is_there, id="gone-awaited"),
        pytest.param(OTHERS, a_mesh_is_started_from_another_file, id="others-written-over"),
        pytest.param(CLAIMS, two_start_a_mesh_at_once, id="claims-nothing"),
        pytest.param(SILENT, a_group_falls_silent, id="silent-forgotten"),
    ],
)
def test_a_bug_that_was_cured_would_be_found(mutation: Mutation, shown: Callable[[], None]) -> None:
    """With the bug the test fails, and without it passes. Spec: K5, K28, DESIGN 6."""
    shown()
    with mutation.planted(), pytest.raises((AssertionError, MeshError, pytest.fail.Exception)):
        shown()
