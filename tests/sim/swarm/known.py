"""Violations that stand in the product today, so that the swarm can look for others.

None is passed over: the runner names them with their seeds, and a test fails as soon as one of
them has gone, so that its entry here goes too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.sim.swarm.run import Result


@dataclass(frozen=True, slots=True)
class Known:
    """One violation that is understood.

    Attributes:
        seed: A schedule that shows it.
        state: A rare state without which it does not come, or empty.
        why: What is wrong, and where.
    """

    seed: int
    state: str
    why: str


KNOWN: Mapping[str, Known] = {
    "stuck with a fenced lane": Known(
        102445,
        "lane.failed (fenced)",
        "Sources.start only logs that a transaction cannot be begun, so an owner that was fenced "
        "keeps a lane that reads no direct source (Sources._resume_direct, Lane.skip)",
    ),
    "twice at a guaranteed endpoint (direct)": Known(
        -7001,
        "commit unknown-committed (lane)",
        "a lane taken again goes back to what it had handed on, although the commit with an "
        "unknown outcome has delivered more (Lanes._take)",
    ),
}
"""By the rule that is broken."""


def is_known(result: Result) -> bool:
    """Say whether a violation is one of those."""
    known = KNOWN.get(result.rule)
    return known is not None and (not known.state or result.reached[known.state] > 0)


def is_news(result: Result) -> bool:
    """Say whether a schedule broke a rule in a way that is not understood yet."""
    return bool(result.rule) and not is_known(result)
