"""Violations that stand in the product today, so that the swarm can look for others.

None is passed over: the runner names them with their seeds, and a test fails as soon as one of
them has gone, so that its line here goes too.
"""

from __future__ import annotations

from collections.abc import Mapping

KNOWN: Mapping[str, tuple[int, str]] = {
    "worker raised KeyError": (
        130,
        (
            "an endpoint's class is forgotten when its last unsubscribe is read, but the routing "
            "delivers to it until the next round (Learner._unsubscribe, Lane.is_guaranteed)"
        ),
    ),
}
"""Rule -> a seed that shows it, and why."""
