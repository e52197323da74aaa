"""Bugs of what lanes read, send and stamp: planted again, a test must find each.

Spec: K9, K10, K20.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from mesh.core.holds import Holds
from mesh.lane import accepted_losses, relinking
from mesh.lane.batch import Batch
from mesh.lane.following import Following
from mesh.lane.link_ages import LinkAges
from mesh.lane.messages import ingress, transit
from mesh.lane.progress import Progress
from mesh.lane.resuming import begin_of
from mesh.model.facts import ENDED
from mesh.model.frames import Era
from mesh.transport.kafka import retries
from mesh.transport.memory_faults import Outcome
from mesh.worker.lanes import sources
from mesh.worker.lanes.first_records import FirstRecords
from mesh.worker.lanes.sources import Sources
from mesh.worker.lanes.truncated_logs import LastRead
from mesh.worker.second_writer.held_target import TargetCatchUp
from tests.component.transport import test_dirty_commits as dirty_commits
from tests.component.worker import test_eras as eras
from tests.component.worker import test_first_records as first
from tests.component.worker import test_losses_that_meet as losses
from tests.component.worker import test_truncated_logs as truncated_logs
from tests.component.worker import test_unheard_catch_ups as unheard
from tests.component.worker.conftest import SmallMesh
from tests.mutations.cured import Cured, Plant, Shown, assert_found
from tests.mutations.patching import Patches
from tests.property import test_eras as any_eras
from tests.said import listening
from tests.sim import test_recovered_lane as recovered

CURED = Cured()


def an_ingress_is_recreated_before_it_was_read() -> None:
    first.test_an_ingress_that_is_recreated_before_anything_was_read_is_another_one()


@CURED.found_by(an_ingress_is_recreated_before_it_was_read)
def first_records_are_taken_as_they_come(patches: Patches) -> None:
    patches.put(FirstRecords, "is_first", lambda *_: False)


def a_log_is_cut_off_and_grows_less_than_it_lost() -> None:
    shown = truncated_logs.test_it_stops_where_the_log_is_another_and_goes_on_there_once_that_is_accepted
    with listening() as said:
        shown(said, lost=2, come=1)


@CURED.found_by(a_log_is_cut_off_and_grows_less_than_it_lost)
def a_log_ends_where_it_ends(patches: Patches) -> None:
    def wrapper(known):
        return lambda *args: {at: one for at, one in known(*args).items() if one.is_doubted}

    patches.wrap(LastRead, "known", wrapper)


def a_log_is_cut_off_where_its_last_record_is_read_once_more() -> None:
    first.test_a_log_that_is_cut_off_meanwhile_is_found(come=0)


@CURED.found_by(a_log_is_cut_off_where_its_last_record_is_read_once_more)
def the_last_record_is_awaited_for_ever(patches: Patches) -> None:
    patches.put(LastRead, "overdue", lambda *_: ())


def a_log_is_cut_off_again_before_that_is_accepted() -> None:
    truncated_logs.test_a_log_that_is_cut_off_again_before_its_loss_is_accepted_is_another_loss(
        dies=False
    )


@CURED.found_by(a_log_is_cut_off_again_before_that_is_accepted)
def what_is_accepted_is_what_is_lost(patches: Patches) -> None:
    patches.put(accepted_losses, "known_until", lambda stop: 0)


def a_log_is_cut_off_again_after_that_is_accepted() -> None:
    truncated_logs.test_a_log_that_is_cut_off_again_as_soon_as_its_loss_is_accepted_is_found()


@CURED.found_by(a_log_is_cut_off_again_after_that_is_accepted)
def nobody_knows_the_leader_behind_a_loss(patches: Patches) -> None:
    def wrapper(read):
        def wrong(self, *args, records=1, leader_epoch=None, **more):
            epoch = leader_epoch if records else None
            read(self, *args, records=records, leader_epoch=epoch, **more)

        return wrong

    patches.wrap(Batch, "read", wrapper)


def a_marker_stands_where_the_last_record_stood() -> None:
    truncated_logs.test_a_marker_may_stand_where_the_last_record_stood(come=1)


@CURED.found_by(a_marker_stands_where_the_last_record_stood)
def the_first_record_behind_the_last_one_says_nothing(patches: Patches) -> None:
    def wrapper(checked):
        def wrong(self, lane, at, records):
            if records[0].offset() >= lane.position(at):
                del self.last_read.expected_epochs[at]
                return records
            return checked(self, lane, at, records)

        return wrong

    patches.wrap(Sources, "checked", wrapper)


def nothing_stands_behind_a_marker() -> None:
    truncated_logs.test_a_marker_may_stand_where_the_last_record_stood(come=0)


@CURED.found_by(nothing_stands_behind_a_marker)
def a_last_record_that_does_not_come_is_awaited_again(patches: Patches) -> None:
    patches.put(LastRead, "doubt_once", lambda *_: None)


def a_source_rests_while_its_log_is_cut_off() -> None:
    truncated_logs.test_a_source_that_rests_looks_again_before_it_reads_on(is_paused=True)


@CURED.found_by(a_source_rests_while_its_log_is_cut_off)
def a_source_that_rested_is_read_on(patches: Patches) -> None:
    def wrong(self, lane, at):
        self._read(self._kafka_of(at), {at: begin_of(lane, at)})

    patches.put(Sources, "_read_again", wrong)


def a_later_leader_wrote_what_nobody_can_read() -> None:
    losses.test_a_frame_of_a_later_version_can_be_accepted_as_a_loss(
        SmallMesh(), is_led_by_another=True
    )


@CURED.found_by(a_later_leader_wrote_what_nobody_can_read)
def who_wrote_what_nobody_can_read_is_not_known(patches: Patches) -> None:
    patches.put(sources, "note_leader", lambda *_: None)


def nobody_knows_of_a_last_commit() -> None:
    unheard.test_a_commit_of_which_nobody_knows_ends_no_hold(
        unheard.OUTBOX, "b", Outcome.UNKNOWN_COMMITTED
    )


def a_last_commit_comes_late() -> None:
    unheard.test_a_commit_that_comes_when_its_catch_up_has_ended_ends_no_hold("full")


@CURED.found_by(nobody_knows_of_a_last_commit, a_last_commit_comes_late)
def the_last_word_of_a_catch_up_ends_a_hold(patches: Patches) -> None:
    """As it was: whoever hears of it, and however far the lane has read since."""

    def ending(told):
        def wrong(self, known, reached):
            is_last = self.again.is_met
            yield from told(self, known, dict.fromkeys(reached, ENDED) if is_last else reached)

        return wrong

    def believing(meet):
        def wrong(self, target):
            meet(self, target)
            words = [self._of(own) for own in self.kept(target)]
            if any(word is not None and word.is_over for word in words):
                self._next.pop(target, None)

        return wrong

    patches.wrap(TargetCatchUp, "_told", ending)
    patches.wrap(Holds, "_meet", believing)


def a_lane_is_taken(when: str) -> Callable[[], None]:
    return lambda: recovered.test_a_repair_begins_where_the_new_link_began(when)


@CURED.found_by(a_lane_is_taken("before the change"), a_lane_is_taken("at the switch"))
def who_was_recovered_keeps_its_links(patches: Patches) -> None:
    """What it has sent over links of before counts as sent over those that there are now."""

    def wrapper(begin_links):
        def wrong(lane, *args, **more):
            known, numbers = lane.progress, lane.ages.numbers
            if known.epoch > 1:
                known.links = {key: numbers.get(key[0].topic, 0) for key in known.sent}
                more.pop("are_new", None)
            begin_links(lane, *args, **more)

        return wrong

    patches.wrap(relinking, "begin_links", wrapper)


def what_was_sent_before_a_change_is_sent_again() -> None:
    eras.test_a_repair_stamps_what_was_stamped_before(SmallMesh())


@CURED.found_by(what_was_sent_before_a_change_is_sent_again)
def who_reads_again_goes_by_today(patches: Patches) -> None:
    patches.put(Progress, "era_of", lambda *_: None)


@CURED.found_by(eras.test_eras_that_a_link_tells_apart_are_kept_and_others_become_one)
def eras_become_one_whatever_links_there_are(patches: Patches) -> None:
    patches.put(LinkAges, "oldest_alike", lambda _, era: Era(era.domain, 0))


def a_link_goes_that_told_two_eras_apart() -> None:
    any_eras.follow([(set(), 1), (set(), 1), ({("a", "b")}, 1), (set(), 1)])


@CURED.found_by(a_link_goes_that_told_two_eras_apart)
def eras_become_one_before_all_have_switched(patches: Patches) -> None:
    patches.put(Following, "is_settled", lambda *_: True)


@CURED.found_by(eras.test_what_is_older_than_the_topology_before_a_link_does_not_cross_it)
def hops_go_by_their_own_topology(patches: Patches) -> None:
    def wrapper(eras_of):
        return lambda run, offset, _=(): eras_of(run, offset)

    for module in (ingress, transit):
        patches.wrap(module, "eras_of", wrapper)


@CURED.found_by(dirty_commits.test_a_repetition_in_a_quick_transaction_counts_too)
def repeated_requests_are_not_counted(patches: Patches) -> None:
    patches.put(retries, "_COUNTED", re.compile("(?!)"))


@pytest.mark.parametrize(("plant", "shown"), CURED.cases)
def test_a_bug_of_lanes_would_be_found(plant: Plant, shown: Shown) -> None:
    """With the bug the test fails, and without it passes. Spec: K5, K28, DESIGN 6."""
    assert_found(plant, shown)
