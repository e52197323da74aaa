"""What came of many schedules, by family: kept in a file, so that a run can go on another day."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from pathlib import Path

from tests.sim.swarm.run import Result
from tests.sim.swarm.seeds import Family

DRAWING = (
    "seeds",
    "plan",
    "moves",
    "troubles",
    "draw",
    "shifts",
    "targets",
    "oracle",
    "intrusions",
    "outages",
    "beside",
)
"""Modules that decide what a seed draws."""


class TallyError(Exception):
    """A file that cannot be gone on with; says which and why."""


@dataclass(slots=True)
class Tally:
    """What came of schedules of one family.

    Attributes:
        next: The number to go on with: all before it, from where the run began, were run.
        schedules, events, owed: So many ran; records committed, guaranteed deliveries judged.
        idle: Schedules that owed nothing or carried nothing.
        cpu_s: What they took.
        reached: Rare states, counted.
        violations: Seed -> which rule it broke, and how.
    """

    next: int
    schedules: int = 0
    events: int = 0
    owed: int = 0
    idle: int = 0
    cpu_s: float = 0.0
    reached: Counter[str] = field(default_factory=Counter)
    violations: dict[str, str] = field(default_factory=dict)

    def add(self, results: Iterable[Result], cpu_s: float) -> None:
        """Take in what came of schedules that follow each other."""
        self.cpu_s += cpu_s
        for result in results:
            self.next = result.seed.number + 1
            self.schedules += 1
            self.events += result.events
            self.owed += result.owed
            self.idle += not (result.owed and result.carried)
            self.reached.update(result.reached)
            if result.rule:
                self.violations[str(result.seed)] = result.detail

    def line(self, family: Family) -> str:
        """Return the rates as people read them."""
        cpu_s = max(self.cpu_s, 1e-9)
        return (
            f"{family:8s} {self.schedules:9d} schedules  {self.schedules / cpu_s:7.1f}/CPU-s  "
            f"{self.owed / cpu_s:7.0f} owed/CPU-s  {self.idle / max(1, self.schedules):5.1%} idle  "
            f"{len(self.violations)} violations"
        )


Tallies = dict[Family, Tally]


def rare_states(tallies: Tallies) -> Iterator[tuple[str, int]]:
    """Yield the states that were reached, rarest first."""
    reached: Counter[str] = Counter()
    for tally in tallies.values():
        reached.update(tally.reached)
    yield from sorted(reached.items(), key=lambda item: (item[1], item[0]))


def version() -> str:
    """Return what tells one way to draw schedules from another."""
    drawn = blake2b(digest_size=8)
    for name in DRAWING:
        drawn.update(Path(__file__).with_name(f"{name}.py").read_bytes())
    return drawn.hexdigest()


def _kept(tally: Tally) -> dict[str, object]:
    return {one.name: getattr(tally, one.name) for one in fields(tally)}


def write_tallies(path: Path, tallies: Tallies) -> None:
    """Keep what came of schedules; what the file held before stays whole until then."""
    told = {"version": version(), "families": {str(f): _kept(t) for f, t in tallies.items()}}
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")
    fresh.replace(path)


def read_tallies(path: Path) -> Tallies:
    """Return what was kept.

    Raises:
        TallyError: It was not written by this command, or seeds drew other schedules then.
    """
    try:
        told = json.loads(path.read_text())
        if told["version"] != version():
            raise TallyError(
                f"{path}: its seeds drew other schedules (version {told['version']}, now "
                f"{version()}); name another file, this one stays as it is"
            )
        return {
            Family(name): Tally(**{**kept, "reached": Counter(kept["reached"])})
            for name, kept in told["families"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TallyError(f"{path}: not a file of this command ({error})") from error
