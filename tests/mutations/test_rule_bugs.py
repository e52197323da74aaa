"""Rules of the wire and of nodes, each broken in one place: a test must find it.

No schedule of the swarm draws what these rules are about, or long enough. Spec: reliability.md 6.
"""

from __future__ import annotations

import pytest

from mesh.core import scopes
from mesh.core.digest import entry_digest
from mesh.core.held_links import Pair
from mesh.core.matcher import Shape
from mesh.core.read_positions import ReadPositions
from mesh.core.scopes import ScopeReader
from mesh.lane.lane import Lane
from mesh.lane.messages import ingress, outgoing, transit
from mesh.lane.reservations import Reservations
from mesh.model.control import Interest
from mesh.model.frames import TopicPartition
from mesh.model.record_headers import SUBJECT_HEADER
from mesh.node import machine as node_machine
from mesh.node import neighbour
from mesh.node.subscriptions import OwnSubscriptions
from mesh.worker.lanes import pace
from mesh.worker.topics import readership
from mesh.worker.topics.retention import Retention
from tests.component.worker import test_frozen as frozen
from tests.component.worker import test_ingress as published
from tests.component.worker import test_lanes as lanes
from tests.component.worker import test_pace as paced
from tests.component.worker import test_retention as retention
from tests.component.worker import test_transit as passed_on
from tests.component.worker.conftest import SmallMesh
from tests.mutations.cured import Cured, Plant, Shown, assert_found
from tests.mutations.patching import Patches
from tests.property import test_matcher as matched
from tests.unit.core import test_digest as digests
from tests.unit.core import test_loops as judged
from tests.unit.core import test_read_positions as positions
from tests.unit.lane import test_chains as chains
from tests.unit.node import test_machine as node
from tests.unit.node import test_subscriptions as subscriptions

BROKEN = Cured()


def partitions_are_mapped() -> None:
    lanes.test_a_node_writes_only_to_its_own_kafka_cluster_and_keeps_partitions()


@BROKEN.found_by(partitions_are_mapped)
def all_leaves_in_one_partition(patches: Patches) -> None:
    """K3."""

    def wrapper(outbox):
        def wrong(self, link, source):
            return TopicPartition(outbox(self, link, source).topic, self.number)

        return wrong

    patches.wrap(Lane, "outbox", wrapper)


@BROKEN.found_by(retention.test_only_what_was_passed_long_ago_is_deletable)
def what_is_read_is_deleted_at_once(patches: Patches) -> None:
    """K5."""

    def wrapper(deletable):
        return lambda self, now_ms, *more: deletable(self, now_ms + self.keep_ms, *more)

    patches.wrap(Retention, "deletable", wrapper)


@BROKEN.found_by(positions.test_two_lanes_hold_the_same_target_each_in_a_hold_of_its_own)
def what_is_held_is_not_needed(patches: Patches) -> None:
    """K5, K20: so it is deleted."""
    patches.put(ReadPositions, "_held", lambda self, source: ())


def two_groups_read() -> None:
    retention.test_an_endpoint_keeps_what_its_slowest_group_has_not_read_and_all_without_a_group(
        SmallMesh()
    )


@BROKEN.found_by(two_groups_read)
def the_quickest_group_counts(patches: Patches) -> None:
    """K5."""

    def quickest(groups, _topics):
        places = {at for read in groups for at in read}
        return {at: max(read.get(at, 0) for read in groups) for at in places}

    patches.put(readership, "slowest", quickest)


def much_is_published() -> None:
    published.test_many_large_messages_are_cut_into_frames_in_order(SmallMesh())


@BROKEN.found_by(much_is_published)
def frames_close_at_no_size(patches: Patches) -> None:
    """K6."""
    patches.put(outgoing, "_chunks", lambda picked, stretch, limit: iter([picked]))


def headers_are_forged() -> None:
    published.test_forged_mesh_headers_are_removed_and_counted(SmallMesh())


@BROKEN.found_by(headers_are_forged)
def forged_headers_travel(patches: Patches) -> None:
    """K7."""
    patches.put(ingress, "is_reserved", lambda name: name == SUBJECT_HEADER)


def a_frame_is_split() -> None:
    passed_on.test_what_is_split_off_a_frame_is_what_its_client_wrote(SmallMesh())


@BROKEN.found_by(a_frame_is_split)
def a_split_forgets_when_it_was_written(patches: Patches) -> None:
    """K5, K8."""

    def wrapper(scan_value):
        return lambda value, origin: (0, scan_value(value, origin)[1])

    patches.wrap(transit, "scan_value", wrapper)


def a_minor_version_is_split() -> None:
    passed_on.test_a_split_copies_what_a_newer_minor_version_added(SmallMesh())


@BROKEN.found_by(a_minor_version_is_split)
def a_split_forgets_what_it_does_not_know(patches: Patches) -> None:
    """K10."""

    def wrapper(key_tail):
        return lambda origin, flags, ext: key_tail(origin, flags, {})

    patches.wrap(outgoing, "key_tail", wrapper)


def leases_run_out() -> None:
    subscriptions.test_leases_end_once_and_in_their_order(OwnSubscriptions())


@BROKEN.found_by(leases_run_out)
def leases_last(patches: Patches) -> None:
    """K13."""
    patches.put(OwnSubscriptions, "ended", lambda self, now: iter(()))


def there_is_always_more() -> None:
    paced.test_a_lane_that_always_has_more_to_read_commits_after_100_ms(SmallMesh())


@BROKEN.found_by(there_is_always_more)
def batches_have_all_the_time(patches: Patches) -> None:
    """K17."""
    patches.put(pace, "BATCH_MS", 10_000)


@BROKEN.found_by(chains.test_direct_frames_of_a_lane_that_was_taken_since_are_dropped)
def frames_of_former_owners_are_taken(patches: Patches) -> None:
    """K18."""
    patches.put(Reservations, "epoch", lambda self, at, epoch: epoch)


def a_neighbour_falls_silent() -> None:
    node.test_a_silent_neighbour_keeps_only_its_guaranteed_interest(node.serving())


@BROKEN.found_by(a_neighbour_falls_silent)
def who_is_down_wants_direct(patches: Patches) -> None:
    """K19."""
    patches.put(neighbour, "while_down", lambda interest: interest)


def a_start_reaches_no_neighbour() -> None:
    frozen.test_what_was_acknowledged_just_before_is_in_the_frozen_set(SmallMesh())


@BROKEN.found_by(a_start_reaches_no_neighbour)
def nobody_is_frozen(patches: Patches) -> None:
    """K21."""
    patches.put(ScopeReader, "freeze", lambda self, filters: {})


@BROKEN.found_by(digests.test_a_mark_has_the_sum_of_all_entries_in_whatever_order_they_came)
def a_hash_is_of_filters_alone(patches: Patches) -> None:
    """K23."""
    patches.put(scopes, "entry_digest", lambda filter_, _: entry_digest(filter_, Interest()))


def clients_change_their_minds() -> None:
    node.test_however_often_clients_change_their_minds_routes_change_ten_times_a_second(
        node.serving()
    )


@BROKEN.found_by(clients_change_their_minds)
def each_change_is_a_round(patches: Patches) -> None:
    """K25."""
    patches.put(node_machine, "ROUND_MS", 0)


@BROKEN.found_by(matched.test_match_agrees_with_the_one_matcher)
def wildcards_match_addresses(patches: Patches) -> None:
    """K26."""
    patches.put(Shape, "starts_wild", property(lambda self: False))


@BROKEN.found_by(judged.test_the_creation_version_comes_before_the_name)
def of_a_loop_the_last_by_name_loses(patches: Patches) -> None:
    """K27."""
    patches.put(Pair, "version", property(lambda self: 0))


@pytest.mark.parametrize(("plant", "shown"), BROKEN.cases)
def test_a_rule_that_is_broken_would_be_found(plant: Plant, shown: Shown) -> None:
    """With the bug its test fails, and without it passes."""
    assert_found(plant, shown)
