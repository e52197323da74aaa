"""Bugs of what is deleted, given up and counted of endpoints: planted again, a test must find each.

Spec: DESIGN 6.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.core import completion
from mesh.node import subscriptions
from mesh.node.queues import OwnQueues
from mesh.transport import node_topics
from mesh.worker.limits.backlog import Backlog
from mesh.worker.second_writer.displacing import Displacing
from mesh.worker.topics import readership
from mesh.worker.topics.readership import Readership
from tests.component.worker import test_limits_of_recreated as limits_of_recreated
from tests.component.worker import test_retention as retention
from tests.component.worker.conftest import SmallMesh
from tests.mutations.cured import Cured, Plant, Shown, assert_found
from tests.mutations.patching import Patches
from tests.unit.core import test_completion as completed
from tests.unit.node import test_queues as own_queues
from tests.unit.node import test_subscriptions as own_subscriptions
from tests.unit.transport import test_node_topics as settings

CURED = Cured()


@CURED.found_by(limits_of_recreated.test_nothing_goes_by_offsets_of_the_former_one)
def displacing_goes_by_names(patches: Patches) -> None:
    def wrapper(take):
        def wrong(self, of, opened):
            take(self, replace(of, topic_id=b""), opened)

        return wrong

    patches.wrap(Displacing, "_take_opened", wrapper)


@CURED.found_by(limits_of_recreated.test_nothing_is_older_than_its_topic)
def counts_go_by_names(patches: Patches) -> None:
    patches.put(Backlog, "follow_topic", lambda *_: None)


def a_limited_log_loses_its_end() -> None:
    limits_of_recreated.test_what_a_log_has_lost_does_not_wait("dead-letter")


@CURED.found_by(a_limited_log_loses_its_end)
def what_was_counted_before_waits(patches: Patches) -> None:
    patches.put(Backlog, "_begin_again", lambda self, _: self._samples.clear())


def a_limited_queue_loses_its_end() -> None:
    test = limits_of_recreated.test_what_came_where_a_log_lost_its_end_is_given_up_by_letters_alone
    test(is_queue=True)


@CURED.found_by(a_limited_queue_loses_its_end)
def what_was_passed_stays_passed(patches: Patches) -> None:
    patches.put(readership, "_agree", lambda *_: None)


def a_group_falls_silent() -> None:
    retention.test_a_group_that_is_hidden_or_has_lost_its_offsets_keeps_what_it_may_want(
        SmallMesh()
    )


@CURED.found_by(a_group_falls_silent)
def groups_that_fell_silent_are_forgotten(patches: Patches) -> None:
    def wrapper(passed):
        def wrong(self, admin, topics):
            self._known.clear()
            return passed(self, admin, topics)

        return wrong

    patches.wrap(Readership, "passed", wrapper)


def a_lease_is_renewed_at_a_standby() -> None:
    test = (
        own_subscriptions.test_leases_that_are_renewed_leave_nothing_behind_where_nobody_ends_them
    )
    test(subscriptions.OwnSubscriptions())


GROWTH = (
    completed.test_what_waits_for_a_node_that_is_down_does_not_grow_with_every_change,
    a_lease_is_renewed_at_a_standby,
    own_queues.test_a_queue_that_was_left_keeps_its_address_until_nothing_can_be_on_its_way,
    settings.test_the_log_of_control_records_has_an_end_in_bytes,
)


@CURED.found_by(*GROWTH)
def nothing_is_bounded(patches: Patches) -> None:
    patches.put(completion, "WAITING_MAX", 1 << 62)
    patches.put(subscriptions, "SPARE_MAX", 1 << 62)
    patches.put(OwnQueues, "left_long_ago", lambda *_: [])
    endless = {"retention.bytes": node_topics.FOREVER}
    patches.put(node_topics, "_LOGGED_CONTROL", node_topics._LOGGED_CONTROL | endless)


@pytest.mark.parametrize(("plant", "shown"), CURED.cases)
def test_a_bug_of_limits_would_be_found(plant: Plant, shown: Shown) -> None:
    """With the bug the test fails, and without it passes. Spec: DESIGN 6."""
    assert_found(plant, shown)
