"""Is each planted bug found, and how soon? `--keep` keeps the schedules that show them."""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
from collections.abc import Sequence

from tests.mutations.hunt import MUTATIONS, Found, hunt, places, read_killers, write_killers
from tests.sim.swarm.__main__ import OneLine, say


def main(arguments: Sequence[str] | None = None) -> int:
    """Hunt the bugs that the command line names; return 1 if one gets away."""
    parser = OneLine(prog="python -m tests.mutations", description=__doc__)
    add = parser.add_argument
    add("--only", default="", help="part of the names of bugs")
    add("--first", type=int, default=0, help="number to begin with: above 0 without drills")
    add("--jobs", type=int, default=1, help="processes at work")
    add("--keep", action="store_true", help="write killers.json, which the test goes by")
    options = parser.parse_args(arguments)
    chosen = [one.name for one in MUTATIONS if options.only in one.name]
    if not chosen:
        parser.error(f"no planted bug has {options.only!r} in its name")
    found = _hunt_all(chosen, options)
    tried = [one.tried for one in found.values()]
    say(f"{len(found)} of {len(chosen)} planted bugs found")
    if tried:
        say(f"schedules until then: median {statistics.median(tried):.0f}, most {max(tried)}")
    if options.keep:
        names = {one.name for one in MUTATIONS}
        kept = {name: one for name, one in read_killers().items() if name in names - {*chosen}}
        write_killers({**kept, **found})
    return 0 if len(found) == len(chosen) else 1


def _hunt_all(chosen: Sequence[str], options: argparse.Namespace) -> dict[str, Found]:
    wrong = {one.name: one.wrong for one in MUTATIONS}
    tasks = [(name, options.first) for name in chosen]
    caught: dict[str, Found] = {}
    with multiprocessing.Pool(options.jobs) as pool:
        for name, found in pool.imap(_hunt, tasks):
            told = "NOT FOUND"
            if found is not None:
                caught[name] = found
                told = f"{found.tried:5d} schedules: {found.seed}, {found.rule}"
            say(f"{name:26s} {told}  ({wrong[name]})")
    return caught


def _hunt(task: tuple[str, int]) -> tuple[str, Found | None]:
    name, first = task
    mutation = next(one for one in MUTATIONS if one.name == name)
    return name, hunt(mutation, places(mutation, first))


if __name__ == "__main__":
    sys.exit(main())
