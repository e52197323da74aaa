"""When a lane commits: as soon as it has nothing more to read, and after 100 ms whatever comes.

Spec: K17.
"""

from __future__ import annotations

import pytest

from mesh.lane.batch import Batch
from mesh.lane.lane import Lane
from mesh.model.topics import TopicNames
from mesh.worker.lanes.owned import Lanes
from mesh.worker.lanes.pace import Pace
from tests.component.worker.conftest import SmallMesh, subject


def with_a_batch(mesh: SmallMesh) -> tuple[Lanes, Lane]:
    """Have a lane of node a read a message that it has not committed yet."""
    mesh.publish(b"1", [subject("x")])
    worker = mesh.world.workers["a"]
    worker.turn(0)
    assert worker.lanes is not None
    [lane] = worker.lanes.owned.values()
    assert lane.batch is not None
    return worker.lanes, lane


def is_committed(lanes: Lanes, lane: Lane, *, is_idle: bool) -> bool:
    """Have commits that are due begin and end; return whether that of the lane was one of them."""
    for _ in lanes.commit_due(is_idle=is_idle):
        pass
    return lane.batch is None


def test_a_lane_that_always_has_more_to_read_commits_after_100_ms(mesh: SmallMesh) -> None:
    lanes, lane = with_a_batch(mesh)
    mesh.world.clock.ms += 99
    assert not is_committed(lanes, lane, is_idle=False)
    mesh.world.clock.ms += 1
    assert is_committed(lanes, lane, is_idle=False)


def test_a_lane_that_has_nothing_more_to_read_commits_at_once(mesh: SmallMesh) -> None:
    lanes, lane = with_a_batch(mesh)
    assert is_committed(lanes, lane, is_idle=True)


def batch(opened_ms: int, *, is_awaited: bool) -> Batch:
    return Batch("a", 0, 1, TopicNames(), opened_ms, is_awaited=is_awaited)


@pytest.mark.parametrize(("took_ms", "gap_ms"), [(2, 20), (10, 30), (1_000, 100)])
def test_the_slower_commits_are_the_longer_lanes_rest(took_ms: int, gap_ms: int) -> None:
    """Up to the 100 ms that a batch may take: where brokers are busy batches grow."""
    pace = Pace()
    pace.committed(took_ms, 5_000)
    assert not pace.is_time(5_000 + gap_ms - 1)
    assert pace.is_time(5_000 + gap_ms)
    assert pace.due_ms(batch(5_001, is_awaited=True)) == 5_000 + gap_ms


def test_what_nobody_waits_for_is_committed_after_100_ms() -> None:
    """As positions of direct messages whose copies are sent already."""
    pace = Pace()
    pace.committed(2, 5_000)
    assert pace.due_ms(batch(5_001, is_awaited=False)) == 5_101
