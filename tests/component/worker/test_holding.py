"""A target that cannot be written is left out, and written alone when it can be again."""

from __future__ import annotations

import pytest

from mesh.model.frames import MessageClass
from mesh.wire.state import decode_ledger
from mesh.worker.second_writer.catching_up import CatchUp
from tests.component.worker.conftest import SmallMesh, subject
from tests.component.worker.gates import Gate
from tests.component.worker.held import OUTBOX, STUCK, is_held, numbers, publish, refuse, take_from
from tests.said import Said


@pytest.fixture
def stuck(mesh: SmallMesh) -> SmallMesh:
    """The endpoint `c/s` takes no more records; `c/t` does."""
    mesh.subscribe("c", "t", ">")
    mesh.run()
    publish(mesh, 0, 1)
    mesh.run()
    refuse(mesh, STUCK, is_refusing=True)
    publish(mesh, 2, 3, 4)
    mesh.run(10_000)
    return mesh


def test_the_others_go_on(said: Said, stuck: SmallMesh) -> None:
    """Spec: K20, R14."""
    publish(stuck, 5, 6)
    stuck.run(2_000)
    assert numbers(stuck, "mesh.c.ep.t") == [0, 1, 2, 3, 4, 5, 6]
    assert numbers(stuck, STUCK) == [0, 1]
    assert said.of("target.held") == [{"log_level": "error", "target": STUCK, "lane": 0}]
    assert is_held(stuck, "c", STUCK)


def test_who_has_lost_its_lane_catches_nothing_up(stuck: SmallMesh) -> None:
    """It may not know: it would end the hold where it stands, which its successor has passed. K16."""
    taken = take_from(stuck, "c")
    refuse(stuck, STUCK, is_refusing=False)
    stuck.run(20_000)
    beside = [one for one in stuck.read(stuck.names.ledger("c")) if one.partition() == 1]
    epochs = {decode_ledger(one.value()).lane_epoch for one in beside}
    assert min(epochs) > taken.progress.epoch
    assert numbers(stuck, STUCK) == [0, 1, 2, 3, 4]


def test_a_lane_that_is_lost_while_records_are_written_one_by_one_ends_that(
    stuck: SmallMesh,
) -> None:
    """Several of them in one turn: the first one may find out."""
    holds = stuck.world.workers["c"].background.holds
    refuse(stuck, STUCK, is_refusing=False)

    def is_alone() -> bool:
        return holds.scheduler.work is not None and holds.scheduler.work.steps_a_turn > 1

    stuck.world.run_until(is_alone, 20_000)
    publish(stuck, *range(5, 30))
    stuck.run(30)
    take_from(stuck, "c")
    stuck.run(20_000)
    assert numbers(stuck, STUCK) == numbers(stuck, "mesh.c.ep.t") == list(range(30))


def test_what_was_held_is_written_once_and_in_order(said: Said, stuck: SmallMesh) -> None:
    """Spec: K20, DESIGN 6."""
    still = said.of("target.still_held")
    assert {(one["log_level"], one["target"]) for one in still} == {("warning", STUCK)}
    assert all(STUCK in one["fault"] for one in still)
    publish(stuck, 5, 6)
    refuse(stuck, STUCK, is_refusing=False)
    for number in range(7, 30):
        publish(stuck, number)
        stuck.run(400)
    stuck.run(10_000)
    assert numbers(stuck, STUCK) == numbers(stuck, "mesh.c.ep.t") == list(range(30))
    publish(stuck, 30)
    stuck.run()
    assert numbers(stuck, STUCK)[-1] == 30
    released = {"log_level": "warning", "target": STUCK, "lane": 0}
    assert said.of("target.released") == [released]


@pytest.mark.parametrize("seed", range(6))
def test_a_hold_outlives_its_worker(stuck: SmallMesh, seed: int) -> None:
    """Killed while it holds, while it catches up, and after. Spec: K16, K20, K12."""
    publish(stuck, 5)
    for number in range(6, 14):
        if number == 6 + seed:
            refuse(stuck, STUCK, is_refusing=False)
        publish(stuck, number)
        stuck.run(100 + 700 * (seed % 3))
        stuck.world.kill("c")
        stuck.world.start("c")
        stuck.run(1_500)
    stuck.run(20_000)
    assert numbers(stuck, STUCK) == numbers(stuck, "mesh.c.ep.t") == list(range(14))
    assert not is_held(stuck, "c", STUCK)


def test_a_link_can_be_held_too(mesh: SmallMesh) -> None:
    """The chain goes on where it was. Spec: K11, K20."""
    mesh.subscribe("b", "t", ">")
    mesh.run()
    publish(mesh, 0, 1)
    mesh.run()
    refuse(mesh, OUTBOX, is_refusing=True)
    publish(mesh, 2, 3, 4, 5)
    mesh.run(10_000)
    assert numbers(mesh, "mesh.b.ep.t") == [0, 1, 2, 3, 4, 5]
    assert numbers(mesh, STUCK) == [0, 1]
    refuse(mesh, OUTBOX, is_refusing=False)
    publish(mesh, 6, 7)
    mesh.run(20_000)
    publish(mesh, 8, 9)
    mesh.run()
    assert numbers(mesh, STUCK) == list(range(10))
    requests = [r for r in mesh.read("mesh.c.to.b.c") if r.key().startswith(b"repair ")]
    assert requests == []


def test_a_source_that_comes_while_a_target_is_caught_up_is_written_too() -> None:
    """The lane leaves it out as well, and the catch-up knew nothing of it. Spec: K20."""
    gate = Gate("_opening")
    mesh = SmallMesh(errands=lambda: gate)
    mesh.world.kill("b")
    outboxes = [mesh.names.outbox("b", "c", one) for one in MessageClass]
    mesh.kafka.admin().delete(outboxes)  # as if b had never been linked to c
    mesh.world.kill("c")
    mesh.world.start("c")
    mesh.run(20_000)
    own = mesh.names.ingress("c", MessageClass.GUARANTEED)
    refuse(mesh, STUCK, is_refusing=True)
    mesh.write(own, b"0", headers=[subject("x")])
    mesh.run(10_000)
    holds = mesh.world.workers["c"].background.holds
    refuse(mesh, STUCK, is_refusing=False)
    gate.is_shut = True
    mesh.run(10_000)
    assert holds.scheduler.opening is not None
    assert holds.scheduler.opening._begins is not None
    mesh.world.start("b")
    mesh.run(10_000)
    publish(mesh, 1, 2, 3)
    mesh.run(10_000)
    assert numbers(mesh, STUCK) == []
    gate.is_shut = False
    mesh.run(20_000)
    assert not is_held(mesh, "c", STUCK)
    assert numbers(mesh, STUCK) == [0, 1, 2, 3]


def test_an_endpoint_that_is_subscribed_again_during_its_catch_up_lacks_nothing(
    mesh: SmallMesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catch-up began when nobody was owed anything, and the lane leaves the rest to it."""
    fetch, is_slow = CatchUp._fetch, [False]
    monkeypatch.setattr(
        CatchUp, "_fetch", lambda one, room: None if is_slow[0] else fetch(one, room)
    )
    mesh.subscribe("c", "t", ">")
    mesh.run()
    publish(mesh, 0, 1)
    mesh.run()
    refuse(mesh, STUCK, is_refusing=True)
    publish(mesh, 2, 3, 4)
    mesh.run(10_000)
    assert is_held(mesh, "c", STUCK)
    holds, began_ms = mesh.world.workers["c"].background.holds, mesh.world.clock.ms
    while holds._tried_ms.get((0, STUCK), 0) < began_ms:
        mesh.run(100)
    mesh.subscribe("c", "s", ">", None)
    mesh.run(500)
    is_slow[0] = True  # a new reader needs a while for its first record
    mesh.world.run_until(lambda: getattr(holds.scheduler.work, "endpoint", "s") == "", 12_000)
    mesh.subscribe("c", "s", ">")
    mesh.run(3_000)
    refuse(mesh, STUCK, is_refusing=False)
    publish(mesh, 5, 6, 7)
    mesh.run(2_000)
    is_slow[0] = False
    mesh.run(20_000)
    publish(mesh, 8, 9)
    mesh.run(5_000)
    assert numbers(mesh, "mesh.c.ep.t") == list(range(10))
    assert numbers(mesh, STUCK)[-5:] == [5, 6, 7, 8, 9]
