"""A topology of a hundred nodes is judged within the goals, legal or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.large import SHAPES
from tests.bench.validate import Figure, measured


@pytest.mark.parametrize("shape", SHAPES)
def test_a_hundred_nodes_are_judged_soon(shape: str, tmp_path: Path) -> None:
    for is_legal in (True, False):
        figure = measured(shape, 100, tmp_path, is_legal=is_legal)
        assert figure.is_met, figure


def test_goals_can_be_missed() -> None:
    assert Figure("x", 100, True, 9.0, 1.9, 499.0).is_met
    assert not Figure("x", 100, True, 9.0, 2.1, 100.0).is_met
    assert not Figure("x", 1000, True, 9.0, 1.0, 501.0).is_met
    assert not Figure("x", 1000, True, 99.0, 30.1, 100.0).is_met
