"""The measurement of interest works, tiny, and counts what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.interest import HUB, Load, measure, rows


@pytest.mark.parametrize(("kind", "covering"), [("cluster", False), ("multi-hop", True)])
def test_filters_are_told_changed_and_withdrawn(kind: str, covering: bool, tmp_path: Path) -> None:
    """Spec: K24."""
    load = Load(filters=50, neighbours=2, kind=kind, rate=100, seconds=1, covering=covering)
    found = measure("sim", load, tmp_path)
    assert found.told_s > 0 < found.withdrawn_s
    assert found.shares.keys() == found.told_cpu_s.keys() == {HUB, "n1", "n2"}
    assert 0 < found.changes <= 100
    assert len(rows(found)) == 4
