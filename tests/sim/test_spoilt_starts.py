"""The short form of `python -m tests.sim.spoilt_starts`, and that it can fail."""

from __future__ import annotations

import pytest

from mesh.worker.control.leader_records import LeaderRecords
from tests.sim import spoilt_starts


@pytest.mark.parametrize("seed", range(1, 7))
def test_all_is_well_again_whatever_strangers_wrote_and_whoever_died(seed: int) -> None:
    """Nobody waits for good, and what was acknowledged is lacking nowhere. K16, K21, K23, K24."""
    mesh = spoilt_starts.trial(seed)
    assert len(mesh.happened) == spoilt_starts.TROUBLES
    assert mesh.published


def test_a_node_that_leaves_what_was_written_over_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LeaderRecords, "overwritten", lambda *_: ())
    monkeypatch.setattr(spoilt_starts, "SETTLES_MS", 60_000)
    with pytest.raises(spoilt_starts.SpoiltError, match=r"says nothing|known everywhere"):
        spoilt_starts.trial(1)
