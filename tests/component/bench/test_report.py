"""What the benchmark makes of its rounds: nothing that was not measured passes for met."""

from __future__ import annotations

import pytest

from mesh.errors import StartError
from tests.bench.counting import Numbers
from tests.bench.goals import Goal, are_met
from tests.bench.report import GOALS, counted, goals, table
from tests.bench.rounds import Figure, Round, refuse_faults

NAMES = [name for name, _, _ in GOALS] + ["raw", "raw+headers", "raw+eos", "mm2-tuned"]


def figure(cpu: float) -> Figure:
    return Figure(wall_s=1, cpu=cpu, broker=1, written=1, sent=1, foreign=0, checked=1)


def made(disturbed: str = "", **cpu: float) -> Round:
    return Round({name: figure(cpu.get(name, 0.1)) for name in NAMES}, disturbed)


def test_goals_without_a_round_are_not_met() -> None:
    judged = goals(table([], 10), quiet=0, wanted=1)
    assert [goal.is_met for goal in judged] == [False, *[None] * len(GOALS)]
    assert not are_met(judged)


def test_goals_of_disturbed_rounds_are_told_and_not_met() -> None:
    rounds = [made("raw: others used 90 % of a core", raw=1.0)]
    assert counted(rounds) == rounds
    assert not are_met(goals(table(rounds, 10), quiet=0, wanted=1))


def test_disturbed_rounds_make_no_figure_beside_others() -> None:
    rounds = [made("raw: others used 90 % of a core", transit=9.0), made(raw=1.0)]
    found = table(counted(rounds), 10)
    assert found["transit"]["to_raw"] == {"median": 0.1, "min": 0.1, "max": 0.1}


def test_goals_are_met_by_medians_of_ratios_within_a_round() -> None:
    low, high = {"raw": 1.0, "raw+headers": 0.1, "mm2-tuned": 1.0}, {"raw": 5.0, "transit": 0.9}
    rounds = [made(**low), made(**low), made(**high)]
    found = table(rounds, 10)
    assert found["transit"]["to_raw"]["max"] == pytest.approx(0.18)
    assert are_met([one for one in goals(found, 3, 3) if one.name == "transit to raw"])


def test_a_peer_that_took_no_part_leaves_its_goals_unmeasured() -> None:
    one = made(raw=1.0)
    del one.figures["mm2-tuned"]
    judged = {goal.name: goal.is_met for goal in goals(table([one], 10), 1, 1)}
    assert judged["one link to mm2-tuned"] is None


def test_what_is_missing_or_there_twice_ends_the_run() -> None:
    refuse_faults("raw", [Numbers(topic="t", expected=5, missing=0, surplus=0)])
    for fault in ({"missing": 1, "surplus": 0}, {"missing": 0, "surplus": 1}):
        with pytest.raises(StartError, match="raw: of 5 messages in t"):
            refuse_faults("raw", [Numbers(topic="t", expected=5, **fault)])


def test_goals_at_least() -> None:
    assert Goal("rounds", 5, 5, at_least=True).is_met
    assert Goal("rounds", 5, 4, at_least=True).is_met is False
