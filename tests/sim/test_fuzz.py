"""The short form of `python -m tests.sim.fuzz`, and that it can fail."""

from __future__ import annotations

import pytest

from mesh.wire.deliveries import decode_delivery
from tests.sim import fuzz


def test_strangers_end_nothing_and_cost_nobody_anything() -> None:
    """A mesh's worth of changed records: each counted, all else delivered once."""
    found = fuzz.fuzz(fuzz.PER_MESH, seed=1)
    kinds = ("ingress", "clients", "control", "outbox", "endpoint", "remarks")
    assert all(found[kind] > fuzz.PER_MESH // 12 for kind in kinds)


def test_a_client_that_dies_of_a_delivery_of_a_later_version_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wrong = lambda headers: decode_delivery(headers[-1][1] or b"")  # noqa: E731
    monkeypatch.setattr("mesh.view.messages.delivery_of", wrong)
    with pytest.raises(Exception, match=r"version|list index"):
        fuzz.fuzz(fuzz.PER_MESH, seed=1)


def test_a_node_that_takes_every_subject_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mesh.lane.messages.ingress.subject_fault", lambda _: None)
    with pytest.raises(fuzz.FuzzError):
        fuzz.fuzz(1_000, seed=1)
