"""What the measurement of a worker's port promises."""

from __future__ import annotations

import pytest

from tests.bench.goals import are_met
from tests.bench.port import Found


def found(**changed: object) -> Found:
    """Return a run in which all went well, but for what is changed."""
    well = {"rss_mb": 80, "core": 0.01, "scrapes_ms": [5, 6, 90], "series": 300}
    return Found(**{"links": 16, "body_bytes": 1, **well, **changed})  # type: ignore[arg-type] # each has its type


def test_the_middle_scrape_counts_and_the_worst_is_told() -> None:
    assert are_met(found().goals())
    assert found().rows()[-1].endswith("worst 90.0 ms")


@pytest.mark.parametrize(
    "changed",
    [{"rss_mb": 121}, {"core": 0.021}, {"scrapes_ms": [5, 21, 90]}, {"series": 2_001}],
)
def test_what_is_too_much_is_missed(changed: dict[str, object]) -> None:
    assert not are_met(found(**changed).goals())
