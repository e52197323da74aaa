"""Run schedules to their end and say what came of each; a brood shares the start of its mesh."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from tests.sim.swarm.child import in_child
from tests.sim.swarm.draw import draw
from tests.sim.swarm.nemesis import mend
from tests.sim.swarm.plan import Plan
from tests.sim.swarm.seeds import Seed
from tests.sim.swarm.verdict import judge, judge_delay, unfinished, why_stuck
from tests.sim.swarm.watch import ViolationError
from tests.sim.swarm.world import SwarmWorld

LIMIT_MS = 60_000
"""Virtual time in which a mended mesh must come to rest."""
LOSSY_LIMIT_MS = 600_000
"""Likewise where losses are accepted, repairs asked for again and stuck records put aside."""
LASTING = ("for", "back")
"""What tells how long a fault lasts."""
LOOK_MS = 150
LATE_MS = 500
"""How often it is looked whether something is late that nothing disturbs."""
REST_MS = 300
"""A mesh at rest is watched a little longer: what comes late must not come twice."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one schedule.

    Attributes:
        rule, detail: The violation; both empty if there was none.
        trace: Hash of everything committed.
        events: Records committed.
        turns: Turns that workers took.
        owed: Guaranteed messages times the subscriptions where each had to come, and came.
        carried: Messages on links.
        reached: Rare states, counted.
    """

    seed: Seed
    rule: str
    detail: str
    trace: str
    events: int
    turns: int
    owed: int
    carried: int
    reached: Counter[str]


def run_seed(seed: Seed) -> Result:
    """Run the schedule of a seed."""
    return run_plan(draw(seed))


def run_plan(plan: Plan, make: Callable[[Plan], SwarmWorld] = SwarmWorld) -> Result:
    """Run a schedule, and first the one that it follows.

    Args:
        plan: The schedule.
        make: Makes the world where it happens.
    """
    if plan.before is None:
        return _finish(make(plan), plan)
    return _go_on(*_at_rest(make(plan.before)), plan)


def run_seeds(seeds: Iterable[Seed]) -> Iterator[Result]:
    """Run schedules in order, those that follow the same one from a copy of its mesh each."""
    for before, plans in itertools.groupby(map(draw, seeds), lambda plan: plan.before):
        if before is None:
            yield from map(run_plan, plans)
            continue
        rested = _at_rest(SwarmWorld(before))
        for plan in plans:
            yield in_child(functools.partial(_go_on, *rested, plan))


def _at_rest(world: SwarmWorld) -> tuple[SwarmWorld, ViolationError | None]:
    """Return a mesh to which nothing happens any more, and the rule that it broke if any."""
    with _counting(world.reached):
        try:
            world.run(world.clock.ms + 1)
            come_to_rest(world)
        except ViolationError as violation:
            return world, violation
    return world, None


def _go_on(world: SwarmWorld, fault: ViolationError | None, plan: Plan) -> Result:
    world.follow(plan)
    return _finish(world, plan, fault)


def _finish(world: SwarmWorld, plan: Plan, fault: ViolationError | None = None) -> Result:
    """Run what a schedule says, mend everything, let the mesh come to rest, and judge."""
    owed = 0
    if fault is None:
        with _counting(world.reached):
            try:
                _run(world)
                owed = judge(world)
            except ViolationError as violation:
                fault = violation
    watch = world.watch
    return Result(
        plan.seed,
        "" if fault is None else fault.rule,
        "" if fault is None else str(fault),
        watch.trace,
        watch.events,
        world.turns,
        owed,
        sum(map(len, watch.carried.values())),
        world.reached,
    )


def _run(world: SwarmWorld) -> None:
    # What is under way has its time, so that faults meet each other as drawn.
    ends = [
        step.at + sum(int(str(step.more.get(word, 0))) for word in LASTING)
        for step in world.plan.steps
    ]
    _happen(world, world.clock.ms + max(ends, default=0) + 1)
    mend(world)
    come_to_rest(world)
    is_nudged = world.damage is not None and world.damage.nudge()
    if is_nudged or (world.operators is not None and world.operators.nudge()):
        come_to_rest(world)
    world.run(world.clock.ms + REST_MS)


def _happen(world: SwarmWorld, until_ms: int) -> None:
    """Let everything happen that was drawn; what strangers do makes nothing else late meanwhile."""
    while world.strangers is not None and world.clock.ms + LATE_MS < until_ms:
        world.run(world.clock.ms + LATE_MS)
        judge_delay(world)
    world.run(until_ms)


def come_to_rest(world: SwarmWorld) -> None:
    """Let a mended mesh do all that is to be done.

    Raises:
        ViolationError: It comes to no rest.
    """
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
