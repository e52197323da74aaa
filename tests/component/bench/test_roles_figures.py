"""What the measurements of roles tell, and that the one without brokers measures something."""

from __future__ import annotations

import pytest

from tests.bench.goals import are_met
from tests.bench.roles import Found
from tests.bench.roles_core import Line, bytes_kept, frames_per_s
from tests.bench.splits_live import Found as Parts

DELAYS = {"p50": 10.0, "p99": 20.0, "p99.9": 30.0}


def found(**changed: object) -> Found:
    """Return a run in which all went well, but for what is changed."""
    well = {
        "direct_ms": DELAYS,
        "request_ms": {cut: 2 * value for cut, value in DELAYS.items()},
        "many_ms": DELAYS,
        "many_sent": 500,
        "many_answered": 500,
        "takeover_s": [2.0, 3.0],
        "again_s": [2.5, 4.0],
        "cut_told_s": [11.0],
        "heal_told_s": [2.0],
        "first_send_s": [1.0],
    }
    return Found(**{**well, **changed})  # type: ignore[arg-type] # each has its type


def test_all_is_well_if_every_goal_is_kept() -> None:
    assert are_met(found().goals())
    assert len(found().rows()) == 9 + len(found().goals())
    assert found().as_json()["many_answered"] == 500


@pytest.mark.parametrize(
    "changed",
    [
        {"request_ms": {"p50": 31.0, "p99": 40.0, "p99.9": 50.0}},
        {"request_ms": {"p50": 20.0, "p99": 71.0, "p99.9": 80.0}},
        {"many_answered": 499},
        {"many_ms": {"p50": 10.0, "p99": 1_001.0, "p99.9": 2_000.0}},
        {"again_s": [9.0, 9.0]},
        {"cut_told_s": [11.0, 13.0]},
        {"heal_told_s": [4.0]},
        {"first_send_s": [2.5]},
        {"again_s": [], "takeover_s": []},
    ],
)
def test_each_goal_can_be_missed(changed: dict[str, object]) -> None:
    """What was not measured is not met either."""
    assert not are_met(found(**changed).goals())


def test_frames_are_counted_and_bytes_are_kept() -> None:
    """A warm send over two links is two frames there and two back."""
    line = Line()
    assert line.frames > 0
    assert frames_per_s(20) > 0
    role, instance = bytes_kept(200)
    assert 100 < instance < role < 10_000


def test_parts_are_found_in_time_by_both() -> None:
    """The auditor, which believes no colour, has twenty seconds as the colours have."""
    parts = Parts({"split by colour": [1.0] * 16, "split by auditor": [14.0] * 15 + [19.0]})
    assert are_met(parts.goals())
    assert len(parts.rows()) == 4
    parts.seconds["split by auditor"][:2] = [21.0, 22.0]
    assert [goal.is_met for goal in parts.goals()] == [True, False]
