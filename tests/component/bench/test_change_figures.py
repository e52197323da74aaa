"""What the measurement of live changes makes of a run."""

from __future__ import annotations

from typing import Any

import pytest

from mesh.core.legality import is_legal
from mesh.errors import StartError
from tests.bench.change import CHANGES, Times, measured, rows, scenario, topology


def result(*details: dict[str, object], **endpoint: int) -> dict[str, Any]:
    counts = {"duplicates": 0, "disordered": 0, "missing": 0, **endpoint}
    steps = [{"step": "apply", "ok": True, "detail": detail} for detail in details]
    return {"backend": "sim", "steps": steps, "endpoints": {"a/s": counts}}


def test_every_topology_of_a_cycle_is_legal_and_has_nine_nodes() -> None:
    for links in CHANGES.values():
        assert is_legal(topology(links))
        assert len(topology(links).nodes) == 9
    assert [step.word for step in scenario(2).steps].count("apply") == 6


def test_figures_are_told_by_what_walks_do() -> None:
    begin = {"ms": 1000, "pauses_ms": {}}
    moves = [{"ms": ms, "pauses_ms": {"a": ms // 2, "b": ms // 4}} for ms in (2000, 4000)]
    found = measured(result(begin, moves[0], begin, begin, moves[1], begin), 2)
    assert found.in_force["move"] == Times(3.0, pytest.approx(3.9), 4.0)
    assert found.pauses["begin"] is None
    assert found.pauses["move"] == Times(1.0, pytest.approx(1.85), 2.0)
    assert [line.split()[-1] for line in rows(found)[2:]] == ["nobody", "1.85", "nobody"]


def test_a_run_that_went_wrong_has_no_figures() -> None:
    begin = {"ms": 1000, "pauses_ms": {}}
    with pytest.raises(StartError, match="a/s"):
        measured(result(begin, begin, begin, duplicates=1), 1)
