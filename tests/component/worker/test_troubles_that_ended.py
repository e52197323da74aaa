"""Faults of a lane that ended while the node was not told are over for the node too. Spec: K12."""

from __future__ import annotations

from mesh.node.faults import Faults
from mesh.transport.memory_faults import Call, MemoryFaults, Outcome
from mesh.transport.port import TopicPartition
from tests.component.worker.conftest import SmallMesh
from tests.component.worker.stops import OUTBOX, accept, payloads, publish, stops


class Deaf(MemoryFaults):
    """Has b's lane not hear that a commit came about, once, which ends a trouble of its sources."""

    def __init__(self, mesh: SmallMesh) -> None:
        self.has_failed = False
        self._workers = mesh.world.workers

    def called(self, call: Call, client: str, what: str) -> Outcome | None:
        if call is not Call.COMMIT or what != "mesh.b.lane.0" or self.has_failed:
            return None
        lane = self._workers["b"].lanes.owned.get(0)  # it is being taken first
        if lane is None:
            return None
        known, kept = lane.learner.faults, lane.progress
        if bool(known.gaps) <= bool(kept.gaps) and bool(known.stops) <= bool(kept.stopped):
            return None
        self.has_failed = True
        return Outcome.UNKNOWN_COMMITTED


def troubles(mesh: SmallMesh) -> Faults:
    return mesh.world.workers["b"].machine.learner.faults


def test_a_chain_that_was_mended_by_a_commit_that_seemed_to_fail_is_asked_for_no_more(
    mesh: SmallMesh,
) -> None:
    """Else its sender would repair it again whenever its lane is taken. Spec: K11."""
    publish(mesh, b"1")
    mesh.run()
    mesh.world.kill("b")
    publish(mesh, b"2")
    mesh.run(1000)
    entries = mesh.kafka.topics[OUTBOX].logs[0].entries
    entries[max(at for at, one in enumerate(entries) if one is not None)] = None
    publish(mesh, b"3")
    mesh.run(1000)
    mesh.kafka.faults = faults = Deaf(mesh)
    mesh.world.start("b")
    mesh.run(8_000)
    assert faults.has_failed
    assert payloads(mesh) == [b"1", b"2", b"3"]
    assert troubles(mesh).gaps == {}
    assert mesh.world.workers["a"]._listener.asked == {}


def test_a_stop_that_was_lifted_by_a_commit_that_seemed_to_fail_is_told_no_more(
    mesh: SmallMesh,
) -> None:
    """Spec: R6."""
    publish(mesh, b"1")
    mesh.run()
    mesh.world.kill("b")
    publish(mesh, b"2", b"3")
    mesh.run(1000)
    end = mesh.kafka.topics[OUTBOX].logs[0].end
    mesh.kafka.admin().delete_before({TopicPartition(OUTBOX, 0): end})
    mesh.world.start("b")
    mesh.run()
    [stop] = stops(mesh, "b").values()
    mesh.kafka.faults = faults = Deaf(mesh)
    accept(mesh, "b", stop)
    mesh.run(8_000)
    assert faults.has_failed
    assert troubles(mesh).stops == {}
    assert stops(mesh, "b") == {}
