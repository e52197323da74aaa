"""A commit that a repair or catch-up brings about may change the topology under it. Spec: K20, K28."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from mesh.lane.lane import Lane
from mesh.model.inputs import Input
from mesh.transport.port import TopicPartition
from mesh.worker.lanes.owned import Lanes
from tests.component.worker.conftest import SmallMesh
from tests.component.worker.held import OUTBOX, STUCK, numbers, publish, refuse
from tests.component.worker.test_stops_in_a_change import change_to
from tests.said import Said

LINK = "mesh.a.to.b.g"


def begin_repair(mesh: SmallMesh) -> None:
    """Have b ask a for what vanished from their link."""
    mesh.world.workers["b"].isolate(["a"])
    mesh.run(500)
    publish(mesh, 4)
    mesh.run()
    mesh.kafka.truncate(TopicPartition(LINK, 0), 1)
    mesh.world.workers["b"].isolate([])
    publish(mesh, 8)


def begin_catch_up(mesh: SmallMesh) -> None:
    """Have b catch up its link to c."""
    refuse(mesh, OUTBOX, is_refusing=True)
    publish(mesh, 4, 8)
    mesh.run(10_000)
    refuse(mesh, OUTBOX, is_refusing=False)


CASES = {
    "repair": (begin_repair, "a", "b", "repairs", "mesh.a.in.g", [["b", "c"], ["a", "c"]]),
    "catch-up": (begin_catch_up, "b", "c", "holds", LINK, [["a", "b"], ["a", "c"]]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_link_that_is_removed_by_what_a_commit_tells_ends_no_worker(
    said: Said, mesh: SmallMesh, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends a round, and the next one, in which the link goes, begins at once.

    What the lane read meanwhile is to be written now, to nobody.
    """
    begin, node, gone, part, source, links = CASES[case]
    publish(mesh, 0)
    mesh.run()
    mesh.kafka.blocked.add(("repair" if part == "repairs" else "held", source))
    begin(mesh)
    work = getattr(mesh.world.workers[node].background, part)
    mesh.world.run_until(lambda: work.scheduler.work is not None, 30_000)
    assert work.scheduler.work is not None
    machine = mesh.world.workers[node].machine
    assert machine is not None
    commit, commit_due, is_shut = Lanes.commit, Lanes.commit_due, [True]

    def commit_and_answer(self: Lanes, lanes: Sequence[Lane]) -> Iterator[Input]:
        if self is not work.lanes or not is_shut[0]:
            yield from commit(self, lanes)

    def commit_no_other(self: Lanes, *, is_idle: bool) -> Iterator[Input]:
        if self is not work.lanes:
            yield from commit_due(self, is_idle=is_idle)

    with monkeypatch.context() as patch:
        patch.setattr(Lanes, "commit", commit_and_answer)
        patch.setattr(Lanes, "commit_due", commit_no_other)
        mesh.subscribe(node, "more", "more/>")
        publish(mesh, 12, 16)
        mesh.run(500)
        mesh.kafka.blocked.clear()
        mesh.run(500)
        change_to(mesh, {"Z": {"kind": "multi-hop", "links": links}}, 1_000)
        assert work.scheduler.work is not None
        is_shut[0] = False
        mesh.run()
    ended = [{"log_level": "warning", "neighbour": gone, "outbox": LINK}]
    assert said.of("repair.ended") == (ended if case == "repair" else [])
    assert gone not in machine.learner.neighbours
    assert work.scheduler.work is None
    mesh.run(20_000)
    publish(mesh, 20)
    mesh.run()
    assert numbers(mesh, STUCK)[-1] == 20
