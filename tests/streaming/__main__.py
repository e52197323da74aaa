"""`python -m tests.streaming --count 200 --seed 1`: are planted faults found, and nothing else?

Draws meshes, has each of them judged when it is healthy and with a fault of each kind planted in
what it wrote, and tells what was not found and what was found without cause. Exit code 1: some.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

from tests.component.streaming.plain_bench import PlainTrial
from tests.streaming.conftest import quick_session
from tests.streaming.trial import Account, Trial


def say(*lines: str) -> None:
    """Tell a person."""
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def main() -> int:
    """Draw until enough is planted."""
    parser = argparse.ArgumentParser(prog="python -m tests.streaming", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="faults to plant, or some more")
    parser.add_argument("--seed", default="1", help="decides everything")
    parser.add_argument("--only", type=int, help="the mesh with this number, and no other")
    parser.add_argument("--plain", action="store_true", help="without Spark: a mesh in 2 s")
    options = parser.parse_args()
    account, began_s = Account(), time.monotonic()
    spark = None if options.plain else quick_session(lambda _: None)
    trial_class = PlainTrial if options.plain else Trial
    with tempfile.TemporaryDirectory(prefix="trellis-") as folder:
        for number in count() if options.only is None else (options.only,):
            if account.planted.total() >= options.count:
                break
            told = len(account.wrong)
            trial_class(spark, Path(folder), f"{options.seed}/{number}", account).run()
            say(f"mesh {number}: {account.planted.total()} planted so far", *account.wrong[told:])
    if spark is not None:
        spark.stop()
    say(
        f"{account.planted.total()} faults planted in {time.monotonic() - began_s:.0f} s:",
        ", ".join(f"{kind} {number}" for kind, number in sorted(account.planted.items())),
        "zones: " + ", ".join(f"{kind} {number}" for kind, number in sorted(account.zones.items())),
        f"{account.certified} deliveries of healthy meshes certified; {len(account.wrong)} wrong",
    )
    return 1 if account.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
