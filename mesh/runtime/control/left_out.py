"""Control topics of single links that take no records: the node leads on without them. Spec: K23.

All that a leader writes in one turn is one transaction. One topic of it that refuses, because a
right was taken away or a policy changed, would end the leadership again and again, and with it
what the node tells all of its neighbours. So what it has for that one neighbour is left out, and
tried again after a while: who leads anew tells everybody everything.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import structlog

REST_MS, REST_MAX_MS = 1_000, 60_000
"""How long a topic that refuses is left out, at first and at most; twice as long each time."""

log = structlog.get_logger()


@dataclass(slots=True)
class LeftOut:
    """Which control topics of links a leader writes nothing to just now."""

    _rest_ms: dict[str, int] = field(default_factory=dict)
    _until_ms: dict[str, int] = field(default_factory=dict)

    def refuse(self, topics: Collection[str], fault: str, now_ms: int) -> None:
        """Take note that topics have refused records."""
        for topic in topics:
            rest_ms = self._rest_ms[topic] = (
                min(REST_MAX_MS, 2 * self._rest_ms.get(topic, 0)) or REST_MS
            )
            self._until_ms[topic] = now_ms + rest_ms
            log.error("control.left_out", topic=topic, fault=fault, again_in_ms=rest_ms)

    def now(self, now_ms: int) -> frozenset[str]:
        """Return the topics to which nothing is written now."""
        return frozenset(topic for topic, until in self._until_ms.items() if now_ms < until)

    def took(self, topics: Collection[str]) -> None:
        """Take note that topics have taken records again."""
        for topic in self._rest_ms.keys() & topics:
            log.warning("control.taken_in", topic=topic)
            del self._rest_ms[topic], self._until_ms[topic]
