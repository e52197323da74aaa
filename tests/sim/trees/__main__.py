"""`python -m tests.sim.trees --seeds 0:20000 --nodes 40`: random trials, each seed by itself."""

from __future__ import annotations

import argparse
import sys
import time

from tests.sim.trees.trial import run_trial
from tests.sim.trees.world import RuleBrokenError

SIZES = (6, 9, 12, 25, 40)
"""Nodes at most, by turns, up to what the command line allows; small meshes find the most."""


def main() -> int:
    """Run the trials; print the seeds that break a rule; return 1 if any does."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.trees", description=__doc__)
    parser.add_argument("--seeds", default="0:200", help="first:behind the last")
    parser.add_argument("--nodes", type=int, default=40, help="at most")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after so long")
    options = parser.parse_args()
    first, _, behind = options.seeds.partition(":")
    sizes = [size for size in SIZES if size <= options.nodes] or [options.nodes]
    began_s = time.monotonic()
    tried = broken = calls = frames = 0
    for seed in range(int(first), int(behind)):
        if time.monotonic() - began_s > 60 * options.minutes:
            break
        tried += 1
        try:
            result = run_trial(seed, sizes[seed % len(sizes)])
        except RuleBrokenError as fault:
            broken += 1
            sys.stdout.write(f"seed {seed} of {sizes[seed % len(sizes)]} nodes: {fault}\n")
        else:
            calls += result.calls
            frames += result.frames
    took_s = time.monotonic() - began_s
    sys.stdout.write(
        f"{broken} of {tried} trials broke a rule; {calls} calls, {frames} frames, {took_s:.0f} s\n"
    )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
