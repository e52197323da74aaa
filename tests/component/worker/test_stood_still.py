"""A worker that stood still judges nobody by what it has not read yet. Spec: DESIGN 4.2, K13, K19."""

from __future__ import annotations

from mesh.wire.keys import subscription_key
from mesh.worker.process.clock import AWAKE_MS, AwakeTime
from tests.component.worker.conftest import SmallMesh

LONG_MS = 30_000


def stand_still(mesh: SmallMesh, node: str) -> None:
    """Have the node's worker take a turn long after its last one, before anything was fetched."""
    worker = mesh.world.workers[node]
    assert worker._service is not None
    lanes = frozenset(worker.lanes.owned)
    worker._service.turn(lanes, {}, mesh.world.clock.ms + LONG_MS, is_idle=True)


def test_neighbours_are_not_taken_for_down(mesh: SmallMesh) -> None:
    stand_still(mesh, "b")
    neighbours = mesh.world.workers["b"].machine.learner.neighbours
    assert {name: one.is_down for name, one in neighbours.items()} == {"a": False, "c": False}


def test_who_is_silent_from_then_on_is_down_ten_seconds_later(mesh: SmallMesh) -> None:
    mesh.world.pause("b")
    mesh.run(5_000)
    mesh.world.kill("a")
    mesh.world.resume("b")
    mesh.run(15_000)
    assert mesh.world.workers["b"].machine.learner.neighbours["a"].is_down


def test_leases_that_may_have_been_renewed_do_not_end(mesh: SmallMesh) -> None:
    mesh.subscribe("c", "leased", "y", b'{"lease_s": 20}')
    mesh.run(2_000)
    stand_still(mesh, "c")
    mesh.run(4_000)
    written = [one for one in mesh.read(mesh.names.clients("c")) if one.value() is None]
    assert [one.key() for one in written] == []
    mesh.run(LONG_MS + 25_000)
    asked = mesh.world.workers["c"].machine.learner.clients.wanted.asked
    assert ("leased", "y") not in asked
    written = [one for one in mesh.read(mesh.names.clients("c")) if one.value() is None]
    assert [one.key() for one in written] == [subscription_key("leased", "y")]


def test_time_between_turns_counts_up_to_a_second() -> None:
    time = AwakeTime()
    assert [time.at(now) for now in (5_000, 5_900, 5_000 + 10 * AWAKE_MS)] == [5_000, 5_900, 6_900]
    assert time.at(15_500) == 7_400
    assert time.at(30_000, counted_ms=0) == 7_400
