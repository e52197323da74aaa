"""Run one schedule to its end and say what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from tests.sim.swarm.drills import drill
from tests.sim.swarm.nemesis import mend
from tests.sim.swarm.plan import Plan, draw, has_changes
from tests.sim.swarm.shifts import draw_shifts
from tests.sim.swarm.verdict import judge, unfinished, why_stuck
from tests.sim.swarm.watch import ViolationError
from tests.sim.swarm.world import START_MS, SwarmWorld

LIMIT_MS = 60_000
"""Virtual time in which a mended mesh must come to rest."""
LOSSY_LIMIT_MS = 600_000
"""Likewise where losses are accepted, repairs asked for again and stuck records put aside."""
LASTING = ("for", "back")
"""What tells how long a fault lasts."""
LOOK_MS = 150
REST_MS = 300
"""A mesh at rest is watched a little longer: what comes late must not come twice."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one schedule.

    Attributes:
        rule, detail: The violation; both empty if there was none.
        trace: Hash of everything committed.
        events: Records committed.
        reached: Rare states, counted.
    """

    seed: int
    rule: str
    detail: str
    trace: str
    events: int
    turns: int
    reached: Counter[str]


def run_seed(seed: int) -> Result:
    """Run the schedule of a seed; negative ones are drills."""
    return run_plan(plan_of(seed))


def plan_of(seed: int) -> Plan:
    """Return the schedule of a seed; negative ones are drills."""
    if seed < 0:
        return drill(seed)
    return draw_shifts(seed) if has_changes(seed) else draw(seed)


def run_plan(plan: Plan) -> Result:
    """Run a schedule: first what it says, then everything is mended, and it must come to rest."""
    world = SwarmWorld(plan)
    rule = detail = ""
    with _counting(world.reached):
        try:
            _run(world)
        except ViolationError as violation:
            rule, detail = violation.rule, str(violation)
    watch = world.watch
    reached = world.reached
    return Result(plan.seed, rule, detail, watch.trace, watch.events, world.turns, reached)


def _run(world: SwarmWorld) -> None:
    steps = [*world.plan.moves, *world.plan.faults]
    # What is under way has its time, so that faults meet each other as drawn.
    ends = [step.at + sum(int(str(step.more.get(word, 0))) for word in LASTING) for step in steps]
    world.run(START_MS + max(ends, default=0) + 1)
    mend(world)
    _come_to_rest(world)
    is_nudged = world.damage is not None and world.damage.nudge()
    if is_nudged or (world.operators is not None and world.operators.nudge()):
        _come_to_rest(world)
    world.run(world.clock.ms + REST_MS)
    judge(world)


def _come_to_rest(world: SwarmWorld) -> None:
    deadline = world.clock.ms + (LIMIT_MS if world.damage is None else LOSSY_LIMIT_MS)
    while left := unfinished(world):
        if world.clock.ms > deadline:
            raise ViolationError(why_stuck(world), left)
        world.run(world.clock.ms + LOOK_MS)


@contextmanager
def _counting(reached: Counter[str]) -> Iterator[None]:
    """Count the events that the product logs, and print none of them."""

    def count(logger: object, name: str, event: structlog.typing.EventDict) -> str:
        told = str(event["event"])
        if "another writer has taken" in str(event.get("fault", "")):
            told += " (fenced)"
        reached[told] += 1
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[count], logger_factory=structlog.ReturnLoggerFactory())
    try:
        yield
    finally:
        structlog.configure(**before)
