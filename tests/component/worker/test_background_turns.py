"""Repairs, holds and movers have the second writer of a lane by turns. Spec: K20."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

from mesh.model.inputs import Input
from mesh.worker.queue_moves.movers import Movers
from tests.component.worker.conftest import SmallMesh
from tests.component.worker.held import STUCK, numbers, publish, refuse
from tests.component.worker.test_changes_amid_catch_ups import begin_repair


@dataclass
class Queues:
    """Movers of several queues: one has always something to open when another has opened."""

    left: int = 0
    opened: int = 0
    is_waiting: bool = False

    @property
    def is_opening(self) -> bool:
        return self.left > 0

    def step(
        self, link_states: object, now_ms: int, *, leads: bool, may_open: bool
    ) -> Iterator[Input]:
        self.left = max(0, self.left - 1)
        if may_open and not self.left:
            self.left = 10
            self.opened += 1
        return iter(())

    def close(self) -> None:
        """Nothing is open."""


def have_queues(mesh: SmallMesh, node: str) -> Queues:
    service, queues = mesh.world.workers[node]._service, Queues()
    assert service is not None
    service.background = replace(service.background, movers=cast("Movers", queues))
    return queues


def test_what_is_held_is_written_although_movers_come_and_go(mesh: SmallMesh) -> None:
    mesh.subscribe("c", "t", ">")
    mesh.run()
    refuse(mesh, STUCK, is_refusing=True)
    publish(mesh, 0, 1, 2)
    mesh.run(10_000)
    refuse(mesh, STUCK, is_refusing=False)
    queues = have_queues(mesh, "c")
    mesh.run(30_000)
    assert numbers(mesh, STUCK) == [0, 1, 2]
    opened = queues.opened
    mesh.run(5_000)
    assert queues.opened > opened > 10


def test_what_a_neighbour_misses_is_sent_although_movers_come_and_go(mesh: SmallMesh) -> None:
    publish(mesh, 0)
    mesh.run()
    queues = have_queues(mesh, "a")
    begin_repair(mesh)
    mesh.run(20_000)
    assert numbers(mesh, STUCK) == [0, 4, 8]
    assert queues.opened > 10
