"""Control topics that take no records: the node leads on without them. Spec: K23, DESIGN 4.6.

All that a leader writes in one turn is one transaction. If one of its topics refuses, because a
right was taken away, a policy changed or somebody deleted it, the leadership would end again and
again; one without a leader would hold the transactional id, and with it everything that the node
reports to its neighbours. So writes to that topic are left out, and tried again after a while, or
when a look finds the topic writable: the next leader reports everything to everybody.

Nobody leads without the node's `control`, by which all know it, and its `learned`, which records
what is to be acknowledged first.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import structlog

from mesh.model.patience import Patience

REST_MS = Patience(1_000, 60_000)
"""How long a refusing topic is left out, at first and at most; twice as long each time."""

log = structlog.get_logger()


@dataclass(slots=True)
class UnwritableTopics:
    """The control topics to which a leader writes nothing just now.

    Attributes:
        found: Those that the newest look found unwritable.
    """

    found: frozenset[str] = frozenset()
    _rest_ms: dict[str, int] = field(default_factory=dict)
    _until_ms: dict[str, int] = field(default_factory=dict)

    def refuse(self, topics: Collection[str], fault: str, now_ms: int) -> None:
        """Record that topics have refused records."""
        for topic in topics:
            rest_ms = self._rest_ms[topic] = REST_MS.after(self._rest_ms.get(topic))
            self._until_ms[topic] = now_ms + rest_ms
            log.error("control.left_out", topic=topic, fault=fault, again_in_ms=rest_ms)

    def look(self, found: frozenset[str]) -> None:
        """Record the topics that cannot be written now."""
        for topic in sorted(found - self.found):
            log.error("control.left_out", topic=topic, fault="it is gone or has no leader")
        self.found = found

    def now(self, now_ms: int) -> frozenset[str]:
        """Return the topics to which nothing is written now."""
        resting = {topic for topic, until in self._until_ms.items() if now_ms < until}
        return self.found | resting

    def took(self, topics: Collection[str]) -> None:
        """Record that topics have taken records again."""
        for topic in self._rest_ms.keys() & topics:
            log.warning("control.taken_in", topic=topic)
            del self._rest_ms[topic], self._until_ms[topic]
