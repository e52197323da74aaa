"""The demo publishes what the auditor proves on this machine, and not much less."""

from __future__ import annotations

import pytest

from mesh.lab.demo.pace import SLOW_START, ProofAge, ProvableRate

START_S = 30
"""How long Spark takes to start."""


def demo_beside(capacity: float, batch_s: int, seconds: int) -> tuple[list[float], list[float]]:
    """Return lag and rate of each second beside an auditor that proves so many flights a second.

    A batch takes what had come when it began.
    """
    pace = ProvableRate(most=1000.0)
    published: list[float] = []
    proven, until = 0.0, 0
    lags: list[float] = []
    rates: list[float] = []
    for second in range(seconds):
        published.append(pace.rate + (published[-1] if published else 0.0))
        if second >= START_S and second % batch_s == 0:
            proven = min(published[max(0, second - batch_s)], proven + capacity * batch_s)
        while until < second and published[until] <= proven:
            until += 1
        lags.append(float(second - until))
        rates.append(pace.adapt(float(second), lags[-1]))
    return lags, rates


@pytest.mark.parametrize("batch_s", [4, 8, 12, 15])
@pytest.mark.parametrize("capacity", [130, 250, 500, 900, 2000])
def test_the_rate_finds_what_the_auditor_can_do(capacity: float, batch_s: int) -> None:
    lags, rates = (every[300:] for every in demo_beside(capacity, batch_s, 900))
    assert max(lags) < 90
    assert sum(lags) / len(lags) < 40
    assert sum(rates) / len(rates) >= 0.7 * min(capacity, 1000)
    assert max(rates) <= 1000


def test_an_auditor_that_says_nothing_keeps_the_rate_where_it_began() -> None:
    pace = ProvableRate(most=1000.0)
    assert {pace.adapt(float(now_s), float(now_s)) for now_s in range(16, 400)} == {SLOW_START}


def test_the_age_of_the_proof_is_the_same_whatever_its_clocks_show() -> None:
    age = ProofAge(published_s=500.0)
    assert age.at(510.0, 1_796_000_010_000, None) == 10.0
    assert age.at(520.0, 1_796_000_020_000, 1_796_000_012_000) == 8.0
    assert age.at(521.0, 1_796_000_021_000, None) == 9.0  # what is proven stays so
    assert age.at(522.0, 1_796_000_022_000, 1_795_000_000_000) == 10.0
