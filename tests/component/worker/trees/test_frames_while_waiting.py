"""Frames of the tree layer end no wait: the data path has nothing to do with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from mesh.model.frames import MessageClass
from mesh.transport.port import Record
from mesh.trees.settings import Settings
from mesh.worker.node_service import NodeService
from mesh.worker.process.intake import MayWait, PolledIntake, none_may_wait
from mesh.worker.trees.service import TreeService
from mesh.worker.worker import Worker
from tests.component.worker.conftest import SmallMesh, subject

EVERY_MS = 15
"""So often a neighbour's frame comes."""


class Script(PolledIntake):
    """Returns what a test wants, and lets time pass meanwhile."""

    __slots__ = ("mesh", "script", "waits")

    def __init__(self, mesh: SmallMesh, worker: Worker, script: Iterator[Sequence[Record]]) -> None:
        super().__init__(dict(worker.readers), worker.intake.positions)
        self.mesh, self.script, self.waits = mesh, script, list[float]()

    def read(self, timeout_s: float, may_wait: MayWait = none_may_wait) -> Sequence[Record]:
        self.waits.append(timeout_s)
        self.mesh.world.clock.ms += min(EVERY_MS, int(1000 * timeout_s))
        return next(self.script, ()) if timeout_s else ()


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Tell at what time the data path had its turns."""
    seen: list[int] = []
    turn = NodeService.turn

    def counted(service: NodeService, *arguments: object, **more: object) -> None:
        seen.append(arguments[2])  # type: ignore[arg-type]
        turn(service, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(NodeService, "turn", counted)
    return seen


def test_a_turn_waits_on_behind_frames(turns: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is taken as it comes, and the turn is as late as it would have been without them."""
    mesh = SmallMesh(trees=Settings())
    worker = mesh.world.workers["b"]
    frames = [one for one in mesh.read(mesh.names.to_trees("a", "b")) if one.value()]
    taken: list[Sequence[Record]] = []
    monkeypatch.setattr(TreeService, "take", lambda _self, records, _now: taken.append(records))
    worker.intake = script = Script(mesh, worker, ([one] for one in frames * 9))
    began_ms = mesh.world.clock.ms
    turns.clear()
    assert worker.turn(0.1)
    assert turns == [began_ms + 100]
    assert len(taken) == len(script.waits) >= 100 // EVERY_MS


def test_messages_end_it_at_once(turns: list[int]) -> None:
    """Behind a frame as without one."""
    mesh = SmallMesh(trees=Settings())
    worker = mesh.world.workers["b"]
    frame = mesh.read(mesh.names.to_trees("a", "b"))[-1]
    mesh.publish(b"x", [subject("x/y")])
    message = mesh.read(mesh.names.ingress("a", MessageClass.GUARANTEED))[-1]
    worker.intake = Script(mesh, worker, iter([[frame], [frame, message], [frame]]))
    began_ms = mesh.world.clock.ms
    turns.clear()
    assert worker.turn(0.1)
    assert turns == [began_ms + 2 * EVERY_MS]
