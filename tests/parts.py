"""How long each part of the suite took: printed when it ends, longest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol


class Timed(Protocol):
    """One phase of one test, as pytest tells it."""

    nodeid: str
    duration: float


def part_of(nodeid: str) -> str:
    """Return the part that a test belongs to: its folder in `tests`, `tests/sim/swarm` apart."""
    folders = nodeid.partition("::")[0].split("/")[1:-1]
    depth = 2 if folders[:1] == ["sim"] else 1
    return "/".join(folders[:depth]) or "tests"


def durations(reports: Iterable[Timed]) -> Sequence[str]:
    """Return a line per part: seconds in its tests with what they set up, and how many tests.

    Processes work side by side, so these seconds add up to more than the suite took.
    """
    seconds: Counter[str] = Counter()
    tests: dict[str, dict[str, None]] = {}
    for one in reports:
        part = part_of(one.nodeid)
        seconds[part] += one.duration
        tests.setdefault(part, {})[one.nodeid] = None
    return [
        f"{spent:8.1f} s  {len(tests[part]):5d} tests  {part}"
        for part, spent in seconds.most_common()
    ]
