"""What the measurements make of what they found."""

from __future__ import annotations

import pytest

from tests.bench import backlog, latency, takeover
from tests.bench.backlog import Flow
from tests.bench.takeover import Pauses


def test_takeover_is_judged_by_the_worst_partition() -> None:
    found = takeover.Found(2_000)
    found.crashes += [
        Pauses([2.0, 2.2], [0.1, 0.2], [0.1] * 4, [1.2], 0.1),
        Pauses([3.1], [0.3], [0.2] * 4, [1.4], 0.3),
    ]
    found.stops += [Pauses([0.4, 0.9], [0.2, 0.1], [0.1] * 4, [1.2], 0.1)]
    figures = found.figures()
    assert figures["crash takeover"] == {"median": 2.2, "min": 2.0, "max": 3.1}
    assert figures["survivor at a crash"]["max"] == pytest.approx(0.3)
    assert figures["survivor at a clean stop"]["max"] == pytest.approx(0.2)
    assert figures["hand-over to a new worker"]["max"] == pytest.approx(1.4)
    assert figures["undisturbed"] == {"median": 0.1, "min": 0.1, "max": 0.2}
    assert found.foreign() == pytest.approx(0.3)
    assert [goal.is_met for goal in found.goals()] == [False, True]
    found.member_timeout_ms = 6_000
    assert [goal.is_met for goal in found.goals()] == [True, True]


def test_backlog_compares_the_drain_with_the_link() -> None:
    found = backlog.Found(
        messages=1_000,
        link=Flow(200, 1.0, 0.1, 0.0),
        peaks_mb=[80.0, 85.5, 90.0, 84.0, 84.0],
        fill_rate=100.0,
        first_s=2.0,
        drain=Flow(1_200, 10.0, 0.6, 0.0),
    )
    assert found.growth_mb == pytest.approx(10.0)
    assert found.ratio == pytest.approx(0.6)
    assert [goal.is_met for goal in found.goals()] == [False]
    assert found.as_json()["drain_rate"] == pytest.approx(120.0)
    assert "100 %: 84.0" in "\n".join(found.rows())


def test_who_is_behind_can_do_less_than_is_offered() -> None:
    """Two seconds' worth of messages that take two more seconds are half of what was offered."""
    assert latency.most(lambda _rate, _length_s: {"p50": 900.0, "p99.9": 2_000.0}) == 50_000
    assert latency.most(lambda _rate, _length_s: {"p50": 1.0, "p99.9": 0.0}) == latency.OFFERED


def test_a_goal_of_latency_goes_by_no_loop_at_half() -> None:
    """A contender that can do 100 a second has a loop of 50 that nobody asked for."""
    at_half = latency.Measured(
        name="guaranteed", rate=50, is_half=True, delays_ms={"p50": 1.0, "p99": 1.0}, foreign=0.0
    )
    found = latency.Found([at_half], {}, [50, latency.HALF])
    assert [goal.found for goal in found.goals()] == [None] * 4
