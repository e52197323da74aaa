"""Goals of the measurement of `mesh validate`; the time itself is measured by its command alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.validate import Figure, measured


@pytest.mark.parametrize("is_legal", [True, False])
def test_a_verdict_is_judged_whatever_it_takes(is_legal: bool, tmp_path: Path) -> None:
    figure = measured("mixed", 20, tmp_path, is_legal=is_legal)
    assert figure.is_legal is is_legal
    assert figure.cpu_s > 0
    assert figure.resident_mb > 0


def test_goals_can_be_missed() -> None:
    assert Figure("x", 100, True, 9.0, 1.9, 499.0).is_met
    assert not Figure("x", 100, True, 9.0, 2.1, 100.0).is_met
    assert not Figure("x", 1000, True, 9.0, 1.0, 501.0).is_met
    assert not Figure("x", 1000, True, 99.0, 30.1, 100.0).is_met
