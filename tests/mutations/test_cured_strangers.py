"""Bugs that were cured: what a stranger wrote, or a moment in which a worker stood still, cost others.

Each is planted again, and the test that was written with its cure finds it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mesh.lane.messages import delivering
from mesh.transport.kafka import RealKafka, unpacking
from mesh.worker.process.clock import AwakeTime
from tests.component.transport import test_unpacking as packed
from tests.component.worker import test_ingress as published
from tests.component.worker import test_stood_still as stood_still
from tests.component.worker.conftest import SmallMesh
from tests.mock_cluster import mock_cluster
from tests.mutations.patching import Patches


def batches_are_fetched_for_ever(patches: Patches) -> None:
    patches.put(unpacking.PackedBatches, "note", lambda *_: None)
    patches.put(packed, "PATIENCE_S", 3.0)


def a_batch_cannot_be_unpacked() -> None:
    with mock_cluster() as brokers:
        brokers.create("t")
        kafka = RealKafka("k", {"bootstrap.servers": brokers.servers})
        try:
            packed.test_a_reader_is_told_of_each_record_and_goes_on(brokers, kafka, 5, 100)
        finally:
            kafka.close()


def zero_is_now(patches: Patches) -> None:
    patches.put(delivering, "FIRST_MS", 0)


def somebody_has_no_clock() -> None:
    published.test_who_has_no_clock_publishes_as_of_1970(SmallMesh())


def all_time_counts(patches: Patches) -> None:
    patches.put(AwakeTime, "at", lambda self, now_ms, *_: now_ms)


def a_worker_stood_still() -> None:
    stood_still.test_neighbours_are_not_taken_for_down(SmallMesh())


def a_leader_stood_still() -> None:
    stood_still.test_leases_that_may_have_been_renewed_do_not_end(SmallMesh())


CURED = [
    (batches_are_fetched_for_ever, a_batch_cannot_be_unpacked),
    (zero_is_now, somebody_has_no_clock),
    (all_time_counts, a_worker_stood_still),
    (all_time_counts, a_leader_stood_still),
]


@pytest.mark.parametrize(
    ("plant", "shown"), [pytest.param(*one, id=one[1].__name__) for one in CURED]
)
def test_a_cost_that_was_cured_would_be_found(
    plant: Callable[[Patches], None], shown: Callable[[], None]
) -> None:
    """With the bug the test fails, and without it passes. Spec: R12, K13, K19."""
    shown()
    patches = Patches()
    plant(patches)
    try:
        with pytest.raises(AssertionError):
            shown()
    finally:
        patches.undo()
