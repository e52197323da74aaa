"""The soak's verdict: what grows is told by worker, in an hour and as a multiple."""

from __future__ import annotations

import pytest

from tests.bench.goals import are_met
from tests.bench.soak import STAY, Found


def found(**mb: float) -> Found:
    """Return twenty cycles in two hours in which sizes grow by so many MB an hour from 80 MB."""
    hours = [cycle / 10 for cycle in range(20)]
    sizes = {node: [80 + mb.get(node, 0.0) * hour for hour in hours] for node in STAY}
    return Found(hours=hours, mb=sizes, delivered=20_000)


def test_what_stays_the_same_is_fine() -> None:
    assert are_met(found().goals())
    assert [found().slope(node) for node in STAY] == [0.0, 0.0, 0.0]


def test_one_worker_that_grows_is_a_goal_missed() -> None:
    growing = found(n1=10.0)
    assert growing.slope("n1") == pytest.approx(10.0)
    assert not are_met(growing.goals())
    assert "MISSED" in growing.rows()[-2]
    assert "met" in growing.rows()[-1]
