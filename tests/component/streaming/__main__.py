"""`python -m tests.component.streaming --seeds 0:400`: is what real nodes write ever at fault?

Audits schedules of the swarm, most of those of one topology with a fault planted in what was
written, and tells what was not found, found without cause or certified wrongly. Exit code 1: some.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.component.streaming.audited_swarm import AUDITED, AuditedSchedule
from tests.sim.swarm.__main__ import numbers_of, say
from tests.sim.swarm.seeds import Family, Seed

TOLD_EVERY = 20


def main() -> int:
    """Audit schedules one after another."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.component.streaming", description=__doc__
    )
    add = parser.add_argument
    add("--families", default=",".join(AUDITED), help=f"of {', '.join(AUDITED)}")
    add("--seeds", default="0:100", type=numbers_of, help="numbers in each family: first:behind")
    add("--plant", default="", metavar="KIND", help="this fault, wherever there is a place for it")
    options = parser.parse_args()
    planted: Counter[str] = Counter()
    schedules, certified, wrong, began_s = 0, 0, 0, time.process_time()
    with tempfile.TemporaryDirectory(prefix="trellis-") as folder:
        for family in options.families.split(","):
            for number in options.seeds:
                one = AuditedSchedule(Seed(Family(family), number), Path(folder), options.plant)
                one.run()
                schedules, certified = schedules + 1, certified + one.certified
                planted.update([] if one.planted is None else [one.planted.kind])
                wrong += bool(one.wrong)
                say(*(f"{one.seed}: {text}" for text in one.wrong))
                if schedules % TOLD_EVERY == 0:
                    say(f"{schedules} schedules by {one.seed}, {wrong} wrong")
    say(
        f"{schedules} schedules in {time.process_time() - began_s:.0f} s of the processor: "
        f"{planted.total()} faults planted, {certified} deliveries certified; {wrong} wrong",
        ", ".join(f"{kind} {count}" for kind, count in sorted(planted.items())),
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
