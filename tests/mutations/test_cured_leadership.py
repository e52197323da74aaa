"""Bugs of who leads a node, and what it stands for: planted again, a test must find each.

Spec: K16.
"""

from __future__ import annotations

import pytest

from mesh.node.foreign_records import ForeignRecords
from mesh.node.leader import Leader
from mesh.wire.keys import MarkKey, parse_control_key
from mesh.worker.control import control_writer, leadership
from mesh.worker.control.leader_records import LeaderRecords
from mesh.worker.topics import own_topics, provision
from mesh.worker.topics.targets import Targets
from mesh.worker.topics.writable import Looked
from tests.component.worker import test_bad_records as bad_records
from tests.component.worker import test_lagging_takeover as lagging
from tests.component.worker import test_recreated_control as recreated_control
from tests.component.worker import test_refused_topics as refused_topics
from tests.component.worker import test_unwritable as unwritable
from tests.component.worker import test_written_over as written_over
from tests.component.worker.conftest import SmallMesh
from tests.mutations.cured import Cured, Plant, Shown, assert_found
from tests.mutations.patching import Patches
from tests.said import listening
from tests.unit.node import test_machine as node_machine

CURED = Cured()


def a_node_starts_with_another_control_topic() -> None:
    recreated_control.test_epochs_rise_when_the_control_topic_is_another_one(SmallMesh())


@CURED.found_by(a_node_starts_with_another_control_topic)
def epochs_begin_again(patches: Patches) -> None:
    patches.put(leadership, "read_tail", lambda *_: ())


def a_link_has_no_leader() -> None:
    unwritable.test_who_leads_touches_nothing_that_has_no_leader(SmallMesh(), unwritable.LINK)


@CURED.found_by(a_link_has_no_leader)
def nobody_looks_before_he_leads(patches: Patches) -> None:
    patches.put(Targets, "unwritable_control", property(lambda _: frozenset()))
    patches.put(leadership, "look", lambda *_: Looked())


def a_link_loses_its_leader_inside_a_transaction() -> None:
    shown = unwritable.test_a_node_is_led_on_while_a_transaction_waits_for_one_of_its_links
    with listening() as said:
        shown(said, SmallMesh())


@CURED.found_by(a_link_loses_its_leader_inside_a_transaction)
def a_held_id_has_no_spare(patches: Patches) -> None:
    def wrong(home, names, node):
        return home.writer("control", names.control_transactions(node)), False

    patches.put(leadership, "_open_writer", wrong)


@CURED.found_by(a_link_loses_its_leader_inside_a_transaction)
def who_leads_under_the_spare_id_is_let_go_on(patches: Patches) -> None:
    patches.put(leadership, "was_written_by_spare", lambda _: False)


def a_node_starts_without_a_topic() -> None:
    with listening() as said:
        refused_topics.test_a_refused_topic_costs_what_it_is_for(said, "mesh.b.to.a.t")


@CURED.found_by(a_node_starts_without_a_topic)
def one_refused_topic_keeps_all_from_being_led(patches: Patches) -> None:
    def wrong(admin, specs):
        admin.create(specs)
        return {}

    for module in (own_topics, provision):
        patches.put(module, "create_each", wrong)


def a_worker_that_lags_takes_the_lead() -> None:
    lagging.test_who_takes_the_lead_takes_back_nothing_that_was_acknowledged()


@CURED.found_by(a_worker_that_lags_takes_the_lead)
def who_leads_offers_before_it_knows(patches: Patches) -> None:
    patches.put(Leader, "has_offered", property(lambda _: True))


def a_stranger_writes_before_the_first_offer() -> None:
    node_machine.test_what_a_stranger_writes_before_the_first_offer_is_compared_with_it()


@CURED.found_by(a_stranger_writes_before_the_first_offer)
def what_comes_before_an_offer_is_passed_over(patches: Patches) -> None:
    patches.put(Leader, "note_written", lambda *_: None)


def a_stranger_takes_a_mark_away() -> None:
    bad_records.test_entries_whose_mark_a_stranger_took_away_still_stand()


@CURED.found_by(a_stranger_takes_a_mark_away)
def a_scope_without_a_mark_is_empty(patches: Patches) -> None:
    def wrapper(read_written):
        def wrong(records):
            records = list(records)
            written = read_written(records)
            newest = {record.key() or b"": record.value() for record in records}
            for key in [one for one, value in newest.items() if value is None]:
                if isinstance(found := parse_control_key(key), MarkKey):
                    written.offers.pop(found.scope, None)
            return written

        return wrong

    patches.wrap(control_writer, "read_written", wrapper)


def a_heartbeat_is_ahead() -> None:
    shown = node_machine.test_a_heartbeat_that_is_ahead_of_its_leader_is_outdone
    shown(node_machine.serving(), (9, 1))


@CURED.found_by(a_heartbeat_is_ahead)
def beats_of_the_future_are_left_alone(patches: Patches) -> None:
    patches.put(ForeignRecords, "read_beat", lambda *_: None)


def a_worker_starts_behind_a_stranger() -> None:
    written_over.test_a_worker_that_starts_learns_who_its_node_is(written_over.IDENTITY, None)


@CURED.found_by(a_worker_starts_behind_a_stranger)
def words_stay_written_over(patches: Patches) -> None:
    patches.put(LeaderRecords, "overwritten", lambda *_: ())


def garbage_is_written_while_nobody_leads() -> None:
    written_over.test_what_was_written_over_while_nobody_led_is_said_again(b"advert ")


@CURED.found_by(garbage_is_written_while_nobody_leads)
def what_stood_before_garbage_still_stands(patches: Patches) -> None:
    def wrapped(read):
        return lambda records: read([one for one in records if one.value() != b"garbage"])

    patches.wrap(leadership, "read_written", wrapped)
    patches.put(Leader, "note_written", lambda *_: None)  # what it reads itself would tell it too


@pytest.mark.parametrize(("plant", "shown"), CURED.cases)
def test_a_bug_of_leadership_would_be_found(plant: Plant, shown: Shown) -> None:
    """With the bug the test fails, and without it passes. Spec: K4, K16, DESIGN 6."""
    assert_found(plant, shown)
