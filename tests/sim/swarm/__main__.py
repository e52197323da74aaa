"""Run random schedules of some families, or one: `--seed changes/17`."""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import multiprocessing.pool
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from tests.sim.swarm.draw import draw
from tests.sim.swarm.run import Result, run_plan, run_seeds
from tests.sim.swarm.seeds import BROOD, DRAWN, Family, Seed, seeds
from tests.sim.swarm.shrink import shrink
from tests.sim.swarm.tally import (
    Tallies,
    Tally,
    TallyError,
    rare_states,
    read_tallies,
    write_tallies,
)

KEEP_S = 60
"""How often a run tells how it goes, and keeps what was found."""
NICE = 10
"""Long proofs run beside other work, not instead of it."""
INTERRUPTED = 130


class OneLine(argparse.ArgumentParser):
    """Says what is wrong with a command in one line."""

    def error(self, message: str) -> NoReturn:
        """Print it and end."""
        self.exit(2, f"{self.prog}: {message}\n")


def say(*lines: str) -> None:
    """Write lines for whoever watches."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return what a command line asks for; ends the process if that makes no sense."""
    parser = OneLine(prog="python -m tests.sim.swarm", description=__doc__)
    add = parser.add_argument
    add("--families", default=",".join(DRAWN), type=_families, help=",".join(DRAWN))
    add("--seeds", default="0:1000", type=numbers_of, help="numbers in each family: first:behind")
    add("--seed", type=_seed, help="one schedule, printed step by step")
    add("--minutes", type=_positive, default=60.0, help="end after so long, whatever is left")
    add("--jobs", type=_count, default=1, help="processes at work")
    add("--resume", type=Path, help="file: go on where it ends, and keep there what is found")
    add("--shrink", type=int, default=3, help="so many violations are made short")
    return parser.parse_args(arguments)


def _families(text: str) -> list[Family]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in DRAWN]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"no family {text!r}: there are {', '.join(DRAWN)}")
    return [Family(name) for name in dict.fromkeys(names)]


def numbers_of(text: str) -> range:
    """Return the numbers that a text names, as 0:1000; for `argparse`."""
    first, _, behind = text.partition(":")
    if not (first.isdecimal() and behind.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form first:behind, as 0:1000")
    if int(first) >= int(behind):
        raise argparse.ArgumentTypeError(f"no seeds in {text!r}: the second number is behind all")
    return range(int(first), int(behind))


def _seed(text: str) -> Seed:
    try:
        seed = Seed.parse(text)
        draw(seed)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return seed


def _positive(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = -1.0
    if not 0 < minutes < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no time: some minutes, as 2.5")
    return minutes


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes: 1 or more")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; return 1 if a rule was broken, 130 if interrupted."""
    options = parse(arguments)
    if options.seed is not None:
        return _one(options.seed)
    try:
        tallies = _begin(options)
    except TallyError as error:
        sys.stderr.write(f"python -m tests.sim.swarm: {error}\n")
        return 2
    is_whole = _run(options, tallies)
    say(*(tally.line(family) for family, tally in tallies.items()))
    say("rare states, rarest first:")
    say(*(f"{count:9d}  {state}" for state, count in rare_states(tallies)))
    broken = [item for tally in tallies.values() for item in tally.violations.items()]
    say(*(f"{seed}: {detail}" for seed, detail in broken))
    if not is_whole:
        return INTERRUPTED
    for seed, _ in broken[: options.shrink]:
        say(*explain(Seed.parse(seed)))
    return 1 if broken else 0


def _begin(options: argparse.Namespace) -> Tallies:
    known: Tallies = {}
    if options.resume is not None and options.resume.exists():
        known = read_tallies(options.resume)
    fresh = {family: Tally(options.seeds.start) for family in options.families}
    tallies = {**known, **{family: known.get(family, fresh[family]) for family in fresh}}
    if options.resume is not None:
        try:
            write_tallies(options.resume, tallies)
        except OSError as error:
            raise TallyError(f"{options.resume}: cannot be written ({error.strerror})") from error
    return tallies


def _run(options: argparse.Namespace, tallies: Tallies) -> bool:
    """Run broods of all families in turn; return whether nobody has interrupted it."""
    began_s = kept_s = time.monotonic()
    try:
        for family, results, cpu_s in _results(options, tallies):
            tallies[family].add(results, cpu_s)
            for one in results:
                if one.rule:
                    say(f"{one.seed}: {one.detail}")
            if (now_s := time.monotonic()) - kept_s > KEEP_S:
                kept_s = now_s
                say(*(tally.line(family) for family, tally in tallies.items()))
                if options.resume is not None:
                    write_tallies(options.resume, tallies)
            if now_s - began_s > 60 * options.minutes:
                break
    except KeyboardInterrupt:
        say("interrupted; this is what was found:")
        return False
    finally:
        if options.resume is not None:
            write_tallies(options.resume, tallies)
    return True


Brood = tuple[Family, list[Result], float]


def _results(options: argparse.Namespace, tallies: Tallies) -> Iterator[Brood]:
    """Yield what comes of broods, in order within each family."""
    waiting: deque[multiprocessing.pool.AsyncResult[Brood]] = deque()
    with _pool(options.jobs) as pool:
        for brood in _broods(options, tallies):
            waiting.append(pool.apply_async(_run_brood, (brood,)))
            if len(waiting) > 2 * options.jobs:
                yield waiting.popleft().get()
        while waiting:
            yield waiting.popleft().get()


def _pool(jobs: int) -> multiprocessing.pool.Pool:
    """Return processes that never hear Ctrl-C: whoever started them ends them.

    One that heard it before it came to say so would die with the pool's lock in its hands, and its
    parent would wait for that lock for ever.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return multiprocessing.Pool(jobs, _go_beside)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _broods(options: argparse.Namespace, tallies: Tallies) -> Iterator[list[Seed]]:
    """Yield seeds that share a mesh, of one family after the other."""
    behind = options.seeds.stop
    first = {family: tallies[family].next for family in options.families}
    while first := {family: number for family, number in first.items() if number < behind}:
        for family, number in first.items():
            end = min(behind, (number // BROOD + 1) * BROOD)
            yield seeds(family, range(number, end))
            first[family] = end


def _go_beside() -> None:
    """Prepare a process that runs schedules, and ends when its pool tells it to."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # what it was forked with may raise, and be lost
    os.nice(NICE)
    gc.set_threshold(100_000, 50, 50)  # as for the tests: objects come and go by the million


def _run_brood(brood: Sequence[Seed]) -> Brood:
    before = os.times()
    results = list(run_seeds(brood))
    return brood[0].family, results, sum(os.times()[:4]) - sum(before[:4])


def explain(seed: Seed) -> Iterator[str]:
    """Yield the lines that tell a violation: how to repeat it, the shortest schedule."""
    plan = draw(seed)
    result = run_plan(plan)
    yield f"{seed}: {result.detail}"
    yield f"  repeat: python -m tests.sim.swarm --seed {seed}"
    plan, again = shrink(plan, result.rule)
    yield f"  the shortest schedule found that breaks the rule ({again.detail}):"
    yield from (f"    {line}" for line in plan.lines())


def _one(seed: Seed) -> int:
    plan = draw(seed)
    say(*plan.lines())
    result = run_plan(plan)
    say(
        f"trace {result.trace}, {result.events} records committed, {result.turns} turns, "
        f"{result.owed} owed deliveries came"
    )
    if not result.rule:
        say("no violation")
        return 0
    say(*explain(seed))
    return 1


if __name__ == "__main__":
    sys.exit(main())
