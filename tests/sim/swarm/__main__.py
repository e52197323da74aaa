"""`python -m tests.sim.swarm --seeds 0:100000 [--minutes M] [--jobs 2]`, or `--seed N` for one."""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.sim.swarm.run import Result, plan_of, run_plan, run_seed
from tests.sim.swarm.shrink import shrink

CHUNK = 50


def say(*lines: str) -> None:
    """Write lines for whoever watches."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


@dataclass(slots=True)
class Tally:
    """What came of many schedules.

    Attributes:
        schedules, events: So many ran; so many records were committed in them.
        violations: Schedules that broke a rule.
        reached: Rare states, counted.
    """

    schedules: int = 0
    events: int = 0
    violations: list[Result] = field(default_factory=list)
    reached: Counter[str] = field(default_factory=Counter)

    def add(self, result: Result) -> None:
        """Take a result in."""
        self.schedules += 1
        self.events += result.events
        self.reached.update(result.reached)
        if result.rule:
            self.violations.append(result)


def run_all(seeds: Sequence[int], *, minutes: float, jobs: int) -> Iterator[Result]:
    """Run the schedules of seeds, in chunks, until they or the minutes are over."""
    deadline_s = time.monotonic() + 60 * minutes
    chunks = [seeds[begin : begin + CHUNK] for begin in range(0, len(seeds), CHUNK)]
    if jobs == 1:
        for chunk in chunks:
            yield from _run_chunk(chunk)
            if time.monotonic() > deadline_s:
                return
        return
    with multiprocessing.Pool(jobs) as pool:
        for results in pool.imap(_run_chunk, chunks):
            yield from results
            if time.monotonic() > deadline_s:
                return


def _run_chunk(seeds: Sequence[int]) -> list[Result]:
    return [run_seed(seed) for seed in seeds]


def explain(result: Result) -> Iterator[str]:
    """Yield the lines that tell a violation: what, how to repeat it, the shortest schedule."""
    yield f"seed {result.seed}: {result.detail}"
    yield f"  repeat: python -m tests.sim.swarm --seed {result.seed}"
    plan, again = shrink(plan_of(result.seed), result.rule)
    yield f"  the shortest schedule found that breaks the rule ({again.detail}):"
    yield from (f"    {line}" for line in plan.lines())


def main() -> int:
    """Run what the command line asks for; exit 1 if a rule was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.swarm", description=__doc__)
    parser.add_argument("--seeds", default="0:1000", help="first:behind the last")
    parser.add_argument("--seed", type=int, help="one schedule, printed step by step")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--shrink", type=int, default=3, help="so many violations are shrunk")
    options = parser.parse_args()
    if options.seed is not None:
        return _one(options.seed)
    gc.set_threshold(100_000, 50, 50)  # as for the tests: objects come and go by the million
    first, _, behind = options.seeds.partition(":")
    began_s = time.monotonic()
    tally = Tally()
    seeds = range(int(first), int(behind))
    for result in run_all(seeds, minutes=options.minutes, jobs=options.jobs):
        tally.add(result)
    took_s = time.monotonic() - began_s
    say(
        f"{tally.schedules} schedules, {tally.events} records committed, "
        f"{tally.schedules / took_s:.0f} schedules/s, {len(tally.violations)} violations"
    )
    for state, count in sorted(tally.reached.items()):
        say(f"{count:9d}  {state}")
    for result in tally.violations[: options.shrink]:
        say(*explain(result))
    for result in tally.violations[options.shrink :]:
        say(f"seed {result.seed}: {result.detail}")
    return 1 if tally.violations else 0


def _one(seed: int) -> int:
    plan = plan_of(seed)
    say(*plan.lines())
    result = run_plan(plan)
    say(f"trace {result.trace}, {result.events} records committed, {result.turns} turns")
    if not result.rule:
        say("no violation")
        return 0
    say(*explain(result))
    return 1


if __name__ == "__main__":
    sys.exit(main())
