"""What a lane kept of targets that are gone: nothing is forgotten by guess. Spec: K12."""

from __future__ import annotations

from collections.abc import Sequence

from mesh.errors import TransportDeniedError
from mesh.lane.progress import Progress
from mesh.lane.target_holds import release
from mesh.model.facts import ENDED, Fact, Held, Sent
from mesh.model.frames import SourcePartition, TopicPartition
from mesh.wire.keys import fact_key
from mesh.worker.lanes.gone_targets import gone_keys
from mesh.worker.second_writer.held_target import needless_keys
from tests.component.admin_faults import AdminFaults
from tests.component.worker.conftest import SmallMesh
from tests.component.worker.held import OUTBOX, STUCK, numbers, publish, refuse


def gone(mesh: SmallMesh) -> Sequence[bytes]:
    """Return what is gone of what a lane of a keeps of a target that it has let go of."""
    at, of = TopicPartition("mesh.a.ep.old", 0), SourcePartition(bytes(16), 0)
    kept: dict[bytes, Fact] = {b"key": Held(at, of, 1, ENDED)}
    return gone_keys(kept, mesh.world.topology, "a", mesh.kafka, Progress())


def test_what_is_deleted_ends(mesh: SmallMesh) -> None:
    assert gone(mesh) == [b"key"]


def test_who_may_not_look_keeps_all(mesh: SmallMesh) -> None:
    """A topic that must not be seen is none that is gone, and no reason to take no lane."""
    mesh.kafka.faults = AdminFaults(describe=TransportDeniedError("describe topic: not authorized"))
    assert gone(mesh) == ()


def beside(mesh: SmallMesh, node: str) -> set[str]:
    """Return the targets of which catch-ups of a node keep something."""
    newest = {
        one.key(): one.value()
        for one in mesh.read(mesh.names.progress(node))
        if one.partition() >= mesh.world.topology.nodes[node].lanes
    }
    return {key.split()[1].decode() for key, value in newest.items() if value is not None}


def test_what_a_catch_up_recorded_ends_with_the_next_one(mesh: SmallMesh) -> None:
    """Endpoints and links come and go under ever new names."""
    for target, first in ((STUCK, 0), ("mesh.c.ep.t", 10), (STUCK, 20)):
        if first == 10:
            mesh.subscribe("c", "t", ">")
            mesh.run()
        publish(mesh, first)
        mesh.run()
        refuse(mesh, target, is_refusing=True)
        publish(mesh, first + 1, first + 2)
        mesh.run(10_000)
        refuse(mesh, target, is_refusing=False)
        mesh.run(20_000)
        assert beside(mesh, "c") == {target}
    assert numbers(mesh, STUCK) == [0, 1, 2, 10, 11, 12, 20, 21, 22]
    mesh.world.kill("c")
    mesh.world.start("c")
    mesh.run(10_000)
    publish(mesh, 30)
    mesh.run()
    assert numbers(mesh, "mesh.c.ep.t") == [10, 11, 12, 20, 21, 22, 30]


def test_what_is_still_needed_beside_a_lane_is_kept(mesh: SmallMesh) -> None:
    """The word of a hold that goes on, or whose end may not come about; and all that movers sent."""
    refuse(mesh, OUTBOX, is_refusing=True)
    publish(mesh, 0, 1)
    mesh.run(10_000)
    lane = mesh.world.workers["b"].lanes.owned[0]
    [own, *_] = lane.progress.holds.kept(OUTBOX)
    word, sent = Held(own.at, own.source, own.number, 1), Sent(own.at, own.source, 0, 0)
    of_mover = Sent(own.at, SourcePartition(bytes(16), 0), 7, 0)
    over = Held(own.at, SourcePartition(bytes(16), 1), 1, 1)
    told = [word, sent, of_mover, over]
    assert list(needless_keys(lane, told)) == [fact_key(over.key)]
    release(lane, OUTBOX, mesh.world.clock.now_ms())
    assert list(needless_keys(lane, told)) == [fact_key(over.key)]
    refuse(mesh, OUTBOX, is_refusing=False)
    mesh.run()
    assert list(needless_keys(lane, told)) == [fact_key(one.key) for one in (word, sent, over)]
