"""What the measurement of a mesh in containers promises."""

from __future__ import annotations

from tests.bench.containers import Found
from tests.bench.goals import are_met


def test_the_middle_start_counts_and_all_are_told() -> None:
    found = Found([12.0, 29.9, 80.0], [1.0, 2.0, 3.0])
    assert are_met(found.goals())
    assert not are_met(Found([12.0, 30.1, 31.0], [1.0]).goals())
    assert found.rows()[1:] == ["  ready after 12.0 29.9 80.0 s", "  ended after 1.0 2.0 3.0 s"]
