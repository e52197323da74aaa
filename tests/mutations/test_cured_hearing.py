"""Bugs of what a node hears and waits for: planted again, a test must find each.

Spec: K16, K23, K24.
"""

from __future__ import annotations

import pytest

from mesh.core.completion import Completion
from mesh.model.interest_inputs import input_name
from mesh.node.demands import Demands
from mesh.node.hearing import Hearing
from mesh.node.neighbour import Neighbour
from mesh.node.remembering import Remembering
from mesh.node.unproven_neighbours import UnprovenNeighbours
from mesh.wire.control import decode_pause
from mesh.wire.keys import PauseKey, pause_key
from mesh.wire.operator_records import RecordsOfOperators
from mesh.worker.control import feeds
from mesh.worker.control.acknowledged_interest import AcknowledgedInterest
from mesh.worker.control.feeds import Feeds
from mesh.worker.control.listener import Listener
from mesh.worker.lanes import sources
from tests.component.worker import test_lagging_takeover as lagging
from tests.component.worker import test_late_words as late_words
from tests.component.worker import test_other_partitions as other_partitions
from tests.component.worker import test_recreated_control as recreated_control
from tests.component.worker import test_told_in_part as in_part
from tests.component.worker import test_unproven_start as unproven_start
from tests.component.worker.conftest import SmallMesh
from tests.mutations.cured import Cured, Plant, Shown, assert_found
from tests.mutations.patching import Patches
from tests.said import listening
from tests.sim import test_lost_topology as lost_topology
from tests.sim import test_queue_dead_members as dead_members
from tests.unit.core import test_completion as completion
from tests.unit.node import test_machine as node_machine
from tests.unit.node import test_remembering as remembering
from tests.unit.node import test_unproven_neighbours as unproven_neighbours

CURED = Cured()


def a_member_dies() -> None:
    links = ("a-h", "h-c", "h-d")
    dead_members.test_a_dead_member_starves_nobody(dead_members.ANY, links, "cd", "c", "d")


@CURED.found_by(a_member_dies)
def demands_never_end(patches: Patches) -> None:
    patches.put(Demands, "expire", lambda *_: None)


def offers_are_read_again() -> None:
    recreated_control.test_nothing_is_missed_while_offers_are_read_again(SmallMesh())


@CURED.found_by(offers_are_read_again)
def old_marks_prove(patches: Patches) -> None:
    def wrapper(begin_again):
        def wrong(self, **said):
            begin_again(self, **said)
            self.is_read_again = False

        return wrong

    patches.wrap(Neighbour, "begin_again", wrapper)


def clients_are_recreated_while_nobody_is_there() -> None:
    when = "while nobody is there"
    with listening() as said:
        recreated_control.test_a_clients_topic_recreated_is_read(said, SmallMesh(), when)


@CURED.found_by(clients_are_recreated_while_nobody_is_there)
def gone_subscriptions_are_awaited(patches: Patches) -> None:
    patches.put(AcknowledgedInterest, "_heed_clients", lambda *_: iter(()))


@CURED.found_by(other_partitions.test_an_end_in_another_partition_is_told_until_it_is_one)
def other_partitions_are_not_read(patches: Patches) -> None:
    patches.put(Listener, "_look_elsewhere", lambda *_: None)


def a_node_starts_beside_a_neighbour_without_a_leader() -> None:
    shown = in_part.test_who_starts_beside_a_control_topic_that_is_away_hears_the_others
    shown(SmallMesh(), "mesh.a.control", "no leader")


def a_lane_is_taken_beside_a_partition_without_a_leader() -> None:
    in_part.test_who_takes_a_lane_reads_what_has_a_leader(SmallMesh(), "mesh.a.in.g")


@CURED.found_by(
    a_node_starts_beside_a_neighbour_without_a_leader,
    a_lane_is_taken_beside_a_partition_without_a_leader,
)
def one_that_is_silent_says_nothing_of_all(patches: Patches) -> None:
    for module in (feeds, sources):
        patches.put(module, "answers_so_far", lambda ask: (ask(), True))


def a_pause_is_written_over() -> None:
    late_words.test_what_is_written_over_an_order_ends_it_as_compaction_does(
        pause_key(PauseKey("a", "b", None))
    )


@CURED.found_by(a_pause_is_written_over)
def orders_outlive_what_is_written_over_them(patches: Patches) -> None:
    def wrapper(take):
        def wrong(records, key, value):
            if value is not None:
                decode_pause(value)
            take(records, key, value)

        return wrong

    patches.wrap(RecordsOfOperators, "take_operator_record", wrapper)


def neighbours_start_with_spoilt_offers() -> None:
    unproven_start.test_neighbours_that_wait_for_one_another_serve_all_the_same(SmallMesh())


@CURED.found_by(neighbours_start_with_spoilt_offers)
def starts_wait_for_every_proof(patches: Patches) -> None:
    patches.put(UnprovenNeighbours, "overdue", lambda *_: ())


def a_neighbours_brokers_die_as_it_is_found() -> None:
    unproven_start.test_what_is_found_and_never_read_to_its_end_keeps_nobody_waiting(
        SmallMesh(), by_transaction=False
    )


@CURED.found_by(a_neighbours_brokers_die_as_it_is_found)
def what_is_found_is_awaited(patches: Patches) -> None:
    give_up = Feeds._give_up

    def wrong(self, feed, now_ms):
        return () if feed.assigned else give_up(self, feed, now_ms)

    patches.put(Feeds, "_give_up", wrong)


def a_stranger_withdraws_before_a_mark() -> None:
    shown = node_machine.test_what_a_mark_does_not_prove_is_in_force_and_not_acknowledged
    shown(node_machine.serving())


@CURED.found_by(a_stranger_withdraws_before_a_mark)
def unproven_marks_are_acknowledged(patches: Patches) -> None:
    def wrong(self, name, scope, reader):
        version = (reader.mark.epoch, reader.mark.number)
        self.pending.versions.note(input_name(name, scope), max(version, reader.recalled))

    patches.put(Hearing, "_note_version", wrong)


def a_change_is_gone() -> None:
    mesh = lost_topology.changed()
    with listening() as said:
        lost_topology.test_nobody_waits_for_a_change_that_is_gone(said, mesh, ["far"], [b"change"])


@CURED.found_by(a_change_is_gone)
def lanes_wait_for_changes_that_are_gone(patches: Patches) -> None:
    patches.put(AcknowledgedInterest, "_heed_change", lambda *_: iter(()))


@CURED.found_by(completion.test_an_old_acknowledgement_takes_back_nothing)
def the_newest_acknowledgement_counts(patches: Patches) -> None:
    def wrong(self, reader, scope, ack):
        self.acks[reader, scope] = ack

    patches.put(Completion, "acknowledged", wrong)


@CURED.found_by(unproven_neighbours.test_strangers_who_write_in_turns_make_nobody_wait_for_good)
def each_proof_begins_the_wait_anew(patches: Patches) -> None:
    def wrapped(overdue):
        def wrong(self, neighbours, now_ms):
            for name, neighbour in neighbours.items():
                if neighbour.is_settled:
                    self._started_ms.pop(name, None)
            return overdue(self, neighbours, now_ms)

        return wrong

    patches.wrap(UnprovenNeighbours, "overdue", wrapped)


@CURED.found_by(unproven_neighbours.test_who_is_heard_is_known_by_its_proof_alone)
def what_a_start_goes_without_is_known(patches: Patches) -> None:
    patches.put(Neighbour, "is_known", Neighbour.is_settled)


def lanes_knew_different_things() -> None:
    lagging.test_a_node_whose_lanes_knew_different_things_serves_without_the_neighbour(1)


@CURED.found_by(lanes_knew_different_things)
def each_worker_recalls_what_its_own_lanes_knew(patches: Patches) -> None:
    def wrong(self, name, learned, versions):
        self.neighbours[name].frozen = True
        for scope, filters in learned.items():
            reader = self._scope(name, scope)
            for filter_, interest in reader.recall(filters, versions[scope]).items():
                self._gather(name, scope, filter_, interest)

    patches.put(Hearing, "start_without", wrong)


def a_mark_comes_before_what_is_recalled() -> None:
    shown = node_machine.test_what_is_recalled_takes_back_nothing_that_was_read_since
    shown(node_machine.serving())


@CURED.found_by(a_mark_comes_before_what_is_recalled)
def what_is_recalled_is_what_was_read(patches: Patches) -> None:
    def wrapped(recall):
        def wrong(self, name, scope, filters, version):
            recall(self, name, scope, filters, version)
            self.pending.versions.note(input_name(name, scope), version)

        return wrong

    patches.wrap(Hearing, "_recall", wrapped)


@CURED.found_by(remembering.test_what_is_not_proven_is_kept_as_what_the_lanes_route_by)
def what_was_read_is_kept_as_if_it_were_proven(patches: Patches) -> None:
    def wrapped(add):
        def wrong(self, neighbours, lanes, round_):
            for neighbour in neighbours.values():
                for reader in neighbour.scopes.values():
                    reader.proven = True
            return add(self, neighbours, lanes, round_)

        return wrong

    patches.wrap(Remembering, "add", wrapped)


@pytest.mark.parametrize(("plant", "shown"), CURED.cases)
def test_a_bug_of_hearing_would_be_found(plant: Plant, shown: Shown) -> None:
    """With the bug the test fails, and without it passes. Spec: K5, K16, K23, K24, K28."""
    assert_found(plant, shown)
