"""The short form of `python -m tests.sim.soak`: nothing that comes and goes leaves anything behind."""

from __future__ import annotations

import pytest

from mesh.node import queues
from tests.sim import soak


def test_nothing_is_left_of_what_came_and_went(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hours become minutes; all that is bounded is full by half of the time."""
    monkeypatch.setattr(queues, "LEFT_MS", 120_000)
    monkeypatch.setattr(queues, "LEFT_MAX_MS", 120_000)
    monkeypatch.setattr(soak, "HOUR_MS", 120_000)
    first, last = soak.soak(days=1.0, seed=1, warm_days=0.72)
    growth = last.growth(first)
    assert max(growth.values()) <= soak.TOLERANCE, (first, last)
