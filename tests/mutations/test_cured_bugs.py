"""Bugs that were cured and that the swarm does not draw: planted again, a test must find each."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.errors import MeshError
from mesh.lab.backend import SimulatedBackend
from mesh.lab.run import run_scenario
from mesh.lab.scenario import load_scenario
from mesh.model.topics import TopicNames
from mesh.node.demands import Demands
from mesh.node.doubts import Doubts
from mesh.node.neighbour import Neighbour
from mesh.operate import founding
from mesh.operate.applying import Applying
from mesh.runtime.control import leadership
from mesh.runtime.control.listening import Listener
from mesh.runtime.control.recalling import Recalling
from mesh.runtime.lanes.owned import Lanes
from mesh.runtime.topics.readership import Readership
from tests.component.in_memory_mesh import CHAIN, Mesh
from tests.component.operate import test_in_force as in_force
from tests.component.runtime import test_control_anew as control_anew
from tests.component.runtime import test_full_links as full_links
from tests.component.runtime import test_retention as retention
from tests.component.runtime.conftest import SmallMesh
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


def lost_control_topics_stay_lost(patches: Patches) -> None:
    patches.put(Listener, "lost", lambda *_: None)


def nobody_doubts(patches: Patches) -> None:
    patches.put(Doubts, "due", lambda *_: ())


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


def a_control_topic_is_made_again() -> None:
    when = "while it runs"
    control_anew.test_a_control_topic_made_anew_is_read_by_neighbours(SmallMesh(), when)


def a_cut_outlasts_tombstones() -> None:
    control_anew.test_after_a_cut_longer_than_tombstones_last_interest_that_ended_ends(SmallMesh())


def offers_are_read_again() -> None:
    control_anew.test_nothing_is_missed_while_offers_are_read_again(SmallMesh())


def a_node_starts_with_another_control_topic() -> None:
    control_anew.test_epochs_rise_when_the_control_topic_is_another_one(SmallMesh())


def clients_are_made_again_while_nobody_is_there() -> None:
    when = "while nobody is there"
    control_anew.test_a_clients_topic_made_anew_is_read(SmallMesh(), when)


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
LOST = Mutation("lost-stay-lost", "lost feeds are left alone", lost_control_topics_stay_lost)
DOUBTS = Mutation("nobody-doubts", "what stays unproven is not read again", nobody_doubts)
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
        pytest.param(POSITIONS, a_ring_is_full, id="one-position, in a ring"),
        pytest.param(POSITIONS, a_slow_endpoint_is_full, id="one-position, behind an endpoint"),
        pytest.param(DEMANDS, a_member_dies, id="demands-never-end"),
        pytest.param(LOST, a_control_topic_is_made_again, id="lost-stay-lost"),
        pytest.param(DOUBTS, a_cut_outlasts_tombstones, id="nobody-doubts"),
        pytest.param(OLD_MARKS, offers_are_read_again, id="old-marks-prove"),
        pytest.param(EPOCHS, a_node_starts_with_another_control_topic, id="epochs-begin-again"),
        pytest.param(GONE, clients_are_made_again_while_nobody_is_there, id="gone-awaited"),
        pytest.param(OTHERS, a_mesh_is_started_from_another_file, id="others-written-over"),
        pytest.param(CLAIMS, two_start_a_mesh_at_once, id="claims-nothing"),
        pytest.param(SILENT, a_group_falls_silent, id="silent-forgotten"),
        pytest.param(EXCUSES, a_change_beside_a_cut, id="nobody-excused"),
    ],
)
def test_a_bug_that_was_cured_would_be_found(mutation: Mutation, shown: Callable[[], None]) -> None:
    """With the bug the test fails, and without it passes. Spec: K5, K28, DESIGN 6."""
    shown()
    with mutation.planted(), pytest.raises((AssertionError, MeshError, pytest.fail.Exception)):
        shown()
