"""The last commit of a catch-up takes effect, and the lane does not hear of it in time.

It reads on meanwhile, and what it passes is written by nobody but the next catch-up. Spec: K20.
"""

from __future__ import annotations

import pytest

from mesh.model.facts import Held
from mesh.transport.memory_faults import Call, MemoryFaults, Outcome
from mesh.wire.state import decode_fact
from mesh.worker.lanes.owned import Lanes
from mesh.worker.second_writer.held_targets import HeldTargets
from tests.component.worker.conftest import SmallMesh
from tests.component.worker.held import (
    OUTBOX,
    STUCK,
    is_held,
    numbers,
    publish,
    refuse,
    take_from,
)
from tests.component.worker.test_commits import Slow

OTHER = "mesh.c.ep.t"


class LastCommit(MemoryFaults):
    """The first commit of a node's catch-up that would end a hold is answered like this."""

    def __init__(self, mesh: SmallMesh, node: str, outcome: Outcome) -> None:
        self.mesh, self.node, self.outcome, self.has_come = mesh, node, outcome, False

    def called(self, call: Call, client: str, what: str) -> Outcome | None:
        if (
            call is not Call.COMMIT
            or what != self.mesh.names.lane_transactions(self.node, 0) + ".held"
        ):
            return None
        if self.has_come or not _is_last(self.mesh, self.node):
            return None
        self.has_come = True
        return self.outcome


def _holds(mesh: SmallMesh, node: str) -> HeldTargets:
    background = mesh.world.workers[node].background
    assert background is not None
    return background.holds


def _is_last(mesh: SmallMesh, node: str) -> bool:
    active = _holds(mesh, node).scheduler.work
    return active is not None and active.again.is_met


def _lanes(mesh: SmallMesh, node: str) -> Lanes:
    lanes = mesh.world.workers[node].lanes
    assert lanes is not None
    return lanes


def stuck_mesh(target: str, slow: Slow | None = None) -> SmallMesh:
    """One target takes no records; `c/t`, or `b/t` before the link, does."""
    mesh = SmallMesh() if slow is None else SmallMesh(commits=lambda: slow)
    mesh.subscribe("c" if target == STUCK else "b", "t", ">")
    mesh.run()
    publish(mesh, 0, 1)
    mesh.run()
    refuse(mesh, target, is_refusing=True)
    publish(mesh, 2, 3, 4)
    mesh.run(10_000)
    refuse(mesh, target, is_refusing=False)
    return mesh


@pytest.mark.parametrize("outcome", list(Outcome))
@pytest.mark.parametrize(("target", "node"), [(STUCK, "c"), (OUTBOX, "b")])
def test_a_commit_of_which_nobody_knows_ends_no_hold(
    target: str, node: str, outcome: Outcome
) -> None:
    """What the lane has passed since comes by the next catch-up, and nothing twice."""
    mesh = stuck_mesh(target)
    mesh.kafka.faults = fault = LastCommit(mesh, node, outcome)
    mesh.world.run_until(lambda: fault.has_come, 30_000)
    assert fault.has_come
    for number in range(5, 30):
        publish(mesh, number)
        mesh.run(300)
    mesh.run(30_000)
    assert numbers(mesh, STUCK) == list(range(30))
    assert not is_held(mesh, node, target)


@pytest.mark.parametrize("why", ["full", "lost"])
def test_a_commit_that_comes_when_its_catch_up_has_ended_ends_no_hold(why: str) -> None:
    """The target was found full meanwhile, or the lane was taken: it read on, and so does that."""
    slow = Slow()
    mesh = stuck_mesh(STUCK, slow)
    slow.looks["mesh.c.lane.0.held"] = 10
    mesh.world.run_until(lambda: _is_last(mesh, "c"), 30_000)
    assert _is_last(mesh, "c")
    if why == "full":
        _lanes(mesh, "c").full = frozenset({(0, STUCK)})
        mesh.run(200)
    for late in slow.under_way:
        late.commit()
        late._looks = 0
    if why == "lost":
        take_from(mesh, "c")
    slow.looks.clear()
    publish(mesh, *range(5, 15))
    mesh.run(3_000)
    assert numbers(mesh, OTHER) == list(range(15))
    _lanes(mesh, "c").full = frozenset()
    mesh.run(20_000)
    publish(mesh, 15)
    mesh.run(5_000)
    assert numbers(mesh, STUCK) == numbers(mesh, OTHER) == list(range(16))
    assert not is_held(mesh, "c", STUCK)


def test_a_lane_that_has_read_on_is_not_met(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands still while the last is written; did it not, what it passed would be lost."""
    slow = Slow()
    mesh = stuck_mesh(STUCK, slow)
    monkeypatch.setattr(Lanes, "stand_still", lambda *_, for_now: None)
    slow.looks["mesh.c.lane.0.held"] = 10
    mesh.world.run_until(lambda: _is_last(mesh, "c"), 30_000)
    assert _is_last(mesh, "c")
    for late in slow.under_way:
        late._looks = 1 << 30
    publish(mesh, *range(5, 15))
    mesh.run(1_000)
    assert numbers(mesh, OTHER) == list(range(15))
    for late in slow.under_way:
        late._looks = 0
    slow.looks.clear()
    mesh.run(30_000)
    publish(mesh, 15)
    mesh.run(5_000)
    assert numbers(mesh, STUCK) == numbers(mesh, OTHER) == list(range(16))


def test_a_catch_up_tells_offsets_alone() -> None:
    """Whoever reads that a hold is over reads it from the lane."""
    mesh = stuck_mesh(STUCK)
    mesh.run(20_000)
    told = [(one.partition(), decode_fact(one.value())) for one in mesh.read("mesh.c.progress")]
    words = {(at, one.is_over) for at, one in told if isinstance(one, Held)}
    assert words == {(0, False), (0, True), (1, False)}
