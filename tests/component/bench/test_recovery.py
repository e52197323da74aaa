"""The load under which workers are killed is even, whatever has piled up meanwhile."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from mesh.errors import StartError
from tests.bench import recovery


@dataclass
class PiledUp:
    """A broker that takes everything, and has old messages without end."""

    produced: int = 0
    read: int = 0
    fleet: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(fallen=list, workers={}))

    def produce(self, *_what: object, **_how: object) -> None:
        self.produced += 1

    def poll(self, _timeout_s: float = 0) -> PiledUp:
        self.read += 1
        return self

    def error(self) -> None:
        return None

    def value(self) -> bytes:
        return struct.pack(">d", 0.0)


def test_what_has_piled_up_is_read_faster_than_it_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would be there for ever, and what is measured behind it."""
    monkeypatch.setattr(recovery, "DEADLINE_S", 0.1)
    piled = PiledUp()
    with pytest.raises(StartError, match="nothing arrived within 0 s after kill 3 of b"):
        recovery._until_delivered(piled, piled, piled, "t", 1.0, "after kill 3 of b")
    assert 0 < piled.produced <= 0.1 * recovery.RATE + 1 < piled.read
