"""What commands that try many seeds share: each seed is a trial that raises, or is well."""

from __future__ import annotations

import argparse
import traceback
from collections.abc import Callable

import structlog

from tests.sim.swarm.__main__ import say

TOLD = 400
"""Characters that are told of what went wrong; the seed alone tells all again."""


def run_trials(
    parser: argparse.ArgumentParser, trial: Callable[[int, argparse.Namespace], None]
) -> int:
    """Run the seeds that the command line asks for; return 1 if one raised anything."""
    parser.add_argument("--seeds", default="0:20", help="first:behind the last")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    first, _, behind = options.seeds.partition(":")
    seeds = range(int(first), int(behind))
    failed = 0
    for seed in seeds:
        try:
            trial(seed, options)
        except Exception:  # noqa: BLE001 - whatever it is, it is told with its seed
            failed += 1
            say(f"seed {seed}: {traceback.format_exc().strip().splitlines()[-1][:TOLD]}")
    say(f"{failed} of {len(seeds)} seeds failed")
    return 1 if failed else 0
