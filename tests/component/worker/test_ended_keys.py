"""What a lane kept of targets that are gone: nothing is forgotten by guess. Spec: K12."""

from __future__ import annotations

from collections.abc import Sequence

from mesh.errors import TransportDeniedError
from mesh.lane.progress import Progress
from mesh.model.facts import ENDED, Fact, Held
from mesh.model.frames import SourcePartition, TopicPartition
from mesh.worker.lanes.gone_targets import gone_keys
from tests.component.admin_faults import AdminFaults
from tests.component.worker.conftest import SmallMesh


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
