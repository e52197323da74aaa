"""What a lane kept of targets that are gone: nothing is forgotten by guess. Spec: K12."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from mesh.errors import TransportDeniedError
from mesh.model.facts import ENDED, Held
from mesh.model.frames import SourcePartition, TopicPartition
from mesh.runtime.lane.positions import Positions
from mesh.runtime.lanes.ended import Ended
from mesh.transport.memory import MemoryAdmin, MemoryKafka
from mesh.transport.port import TopicInfo
from tests.component.runtime.conftest import SmallMesh


def let_go(mesh: SmallMesh) -> Ended:
    """Return what a lane of a kept of a target that it has let go of, and whose topic is gone."""
    ended = Ended(mesh.world.topology, "a")
    at, of = TopicPartition("mesh.a.ep.old", 0), SourcePartition(bytes(16), 0)
    ended.see(b"key", Held(at, of, 1, ENDED))
    return ended


def test_what_is_deleted_ends(mesh: SmallMesh) -> None:
    kafka: MemoryKafka = mesh.kafka
    assert let_go(mesh).gone(kafka, Positions()) == [b"key"]


def test_who_may_not_look_keeps_all(mesh: SmallMesh, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that must not be seen is none that is gone, and no reason to take no lane."""

    def denied(_admin: MemoryAdmin, names: Sequence[str]) -> Mapping[str, TopicInfo]:
        raise TransportDeniedError(f"describe topic {names[0]}: not authorized")

    monkeypatch.setattr(MemoryAdmin, "describe", denied)
    assert let_go(mesh).gone(mesh.kafka, Positions()) == ()
