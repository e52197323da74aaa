"""Make a failing schedule as short as it can be: ddmin over what clients do and what goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.sim.swarm.plan import Plan, Step
from tests.sim.swarm.run import Result, run_plan

RUNS_MAX = 400
"""So many runs at most: a schedule takes some ms."""


def shrink(plan: Plan, rule: str) -> tuple[Plan, Result]:
    """Return the smallest schedule found that still breaks a rule, and what came of it."""
    left = [RUNS_MAX]

    def fails(steps: Sequence[Step]) -> bool:
        left[0] -= 1
        return left[0] >= 0 and run_plan(_of(plan, steps)).rule == rule

    steps = ddmin([*plan.moves, *plan.faults], fails)
    smallest = _of(plan, steps)
    return smallest, run_plan(smallest)


def _of(plan: Plan, steps: Sequence[Step]) -> Plan:
    return replace(
        plan,
        moves=[step for step in plan.moves if step in steps],
        faults=[step for step in plan.faults if step in steps],
    )


def ddmin(steps: Sequence[Step], fails: Callable[[Sequence[Step]], bool]) -> Sequence[Step]:
    """Return a part of the steps of which none can be left out: delta debugging."""
    size = max(1, len(steps) // 2)
    while steps:
        for begin in range(0, len(steps), size):
            rest = [*steps[:begin], *steps[begin + size :]]
            if fails(rest):
                steps = rest
                size = min(size, max(1, len(steps) // 2))
                break
        else:
            if size == 1:
                break
            size //= 2
    return steps
