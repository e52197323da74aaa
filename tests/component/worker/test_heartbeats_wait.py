"""Nobody waits for heartbeats: a worker has one turn for many of them."""

from __future__ import annotations

from collections.abc import Sequence

from mesh.model.frames import MessageClass
from mesh.transport.port import Record
from mesh.wire.keys import heartbeat_key, link_key
from mesh.worker.process.intake import MayWait, PolledIntake, none_may_wait
from tests.component.worker.conftest import SmallMesh, subject


class Asked(PolledIntake):
    """Keeps what the worker says of records."""

    __slots__ = ("may_wait",)

    def read(self, timeout_s: float, may_wait: MayWait = none_may_wait) -> Sequence[Record]:
        self.may_wait = may_wait
        return super().read(timeout_s, may_wait)


def asked(mesh: SmallMesh, node: str) -> MayWait:
    """Return what a node's worker says of records."""
    worker = mesh.world.workers[node]
    worker.intake = intake = Asked(dict(worker.readers), worker.intake.positions)
    worker.turn(0)
    return intake.may_wait


def test_what_a_neighbour_writes_each_second_may_wait_and_nothing_else() -> None:
    mesh = SmallMesh()
    mesh.subscribe("a", "own", "y/>")
    mesh.publish(b"1", [subject("x")])
    mesh.run()
    may_wait = asked(mesh, "b")
    names = mesh.names
    control = [*mesh.read(names.control("a")), *mesh.read(names.to_control("a", "b"))]
    assert {one.key() for one in control if may_wait(one)} == {heartbeat_key(), link_key()}
    assert {one.key() for one in control if not may_wait(one)}
    data = mesh.read(names.outbox("a", "b", MessageClass.GUARANTEED))
    assert data
    assert not any(map(may_wait, data))
    beyond = mesh.read(names.control("c"))
    assert beyond
    assert not any(map(asked(mesh, "a"), beyond))


def test_a_topic_that_was_not_read_to_its_end_is_awaited() -> None:
    """A start waits for all that neighbours offer."""
    mesh = SmallMesh()
    mesh.run()
    beats = [one for one in mesh.read(mesh.names.control("a")) if one.key() == heartbeat_key()]
    assert all(map(asked(mesh, "b"), beats))
    mesh.world.kill("b")
    mesh.world.start("b")
    assert not any(map(asked(mesh, "b"), beats))
