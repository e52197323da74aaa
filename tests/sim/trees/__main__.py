"""`python -m tests.sim.trees --seeds 0:20000 --keep FILE`: random trials, each seed by itself.

With `--keep` every trial is a line of the file, and a run goes on where the last one ended; so it
may be ended at any moment.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mesh.trees.settings import Profile
from tests.sim.trees.forgers import run_forged
from tests.sim.trees.trial import run_trial
from tests.sim.trees.world import RuleBrokenError

SIZES = (6, 9, 12, 6, 9, 12, 9, 25, 12, 40)
"""Nodes at most, by turns, up to what the command line allows; small meshes find the most."""

Kept = dict[int, dict[str, Any]]


def main(arguments: list[str] | None = None) -> int:
    """Run the trials; print the seeds that break a rule; return 1 if any does."""
    options = _options(arguments)
    first, _, behind = options.seeds.partition(":")
    sizes = [size for size in SIZES if size <= options.nodes] or [options.nodes]
    kept = _kept(options.keep)
    seeds = [seed for seed in range(int(first), int(behind)) if seed not in kept]
    began_s = time.monotonic()
    with suppress(KeyboardInterrupt):
        for seed in seeds:
            if time.monotonic() - began_s > 60 * options.minutes:
                break
            nodes = sizes[seed % len(sizes)]
            profile = None if options.forged else Profile(options.profile)
            kept[seed] = _try(seed, nodes, profile)
            _keep(options.keep, seed, kept[seed])
    wanted = [one for seed, one in kept.items() if int(first) <= seed < int(behind)]
    sys.stdout.writelines(_report(wanted, time.monotonic() - began_s))
    return 1 if any(one["fault"] for one in wanted) else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.trees", description=__doc__)
    parser.add_argument("--seeds", default="0:200", help="first:behind the last")
    parser.add_argument("--nodes", type=int, default=40, help="at most")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after so long")
    parser.add_argument("--keep", type=Path, help="file: go on where it ends")
    profiles = [str(one) for one in Profile]
    parser.add_argument("--forged", action="store_true", help="a stranger writes; small meshes")
    parser.add_argument("--profile", choices=profiles, default="hard", help="by which rules")
    return parser.parse_args(arguments)


def _try(seed: int, nodes: int, profile: Profile | None) -> dict[str, Any]:
    """Run one trial; without a profile one in which a stranger writes."""
    try:
        result = run_forged(seed) if profile is None else run_trial(seed, nodes, profile)
    except RuleBrokenError as fault:
        sys.stdout.write(f"seed {seed} of {nodes} nodes: {fault}\n")
        sys.stdout.flush()
        return {"nodes": nodes, "fault": str(fault)}
    return {"nodes": nodes, "fault": None, **asdict(result)}


def _kept(path: Path | None) -> Kept:
    """Return what earlier runs have left; a line that was cut off counts as not run."""
    found: Kept = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path and path.exists() else ():
        with suppress(ValueError, KeyError):
            one = json.loads(line)
            found[one["seed"]] = one
    return found


def _keep(path: Path | None, seed: int, said: dict[str, Any]) -> None:
    if path is not None:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"seed": seed, **said}) + "\n")


def _report(trials: Iterable[dict[str, Any]], took_s: float) -> Iterator[str]:
    every = list(trials)
    whole = [one for one in every if not one["fault"]]
    total = {key: sum(one[key] for one in whole) for key in ("calls", "frames", "missed")}
    yield f"{len(every) - len(whole)} of {len(every)} trials broke a rule; {took_s:.0f} s\n"
    yield f"{total['calls']} calls, {total['frames']} frames; "
    yield f"{total['missed']} calls missed somebody who was connected, without a null\n"


if __name__ == "__main__":
    sys.exit(main())
