"""The owner deletes records that everybody read long enough ago. Spec: K5.

The reader of an ingress is the node, of an outbox the neighbour, of an endpoint the slowest group
of its clients; without a group nothing is deleted there.

Time is the owner's monotonic clock: no rule reads a time stamp of a record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from mesh.transport.port import TopicPartition

CHECK_MS = 60_000
"""How often positions are noted and old records deleted."""


@dataclass(slots=True)
class Retention:
    """Remembers how far readers had come, and when.

    Attributes:
        keep_ms: How long records stay after their reader has passed them.
    """

    keep_ms: int
    _passed: dict[TopicPartition, deque[tuple[int, int]]] = field(default_factory=dict)
    _checked_ms: int = 0

    def is_due(self, now_ms: int) -> bool:
        """Return whether it is time to look again; if so, count that as done."""
        if now_ms - self._checked_ms < CHECK_MS:
            return False
        self._checked_ms = now_ms
        return True

    def passed(self, positions: Mapping[TopicPartition, int], now_ms: int) -> None:
        """Note the next offsets that readers want at this moment.

        If a reader starts over further back, what it had passed before no longer counts.
        """
        for place, position in positions.items():
            history = self._passed.setdefault(place, deque())
            if history and position < history[-1][1]:
                history.clear()
            if not history or position > history[-1][1]:
                history.append((now_ms, position))

    def keep_only(self, places: Collection[TopicPartition], unknown: Collection[str] = ()) -> None:
        """Forget partitions that this worker hears nothing about: their new owner may know better.

        Args:
            places: Partitions about which something is known.
            unknown: Topics whose readers could not be queried.
        """
        for place in [one for one in self._passed if one not in places]:
            if place.topic not in unknown:
                del self._passed[place]

    def forget(self, topic: str) -> None:
        """Forget the notes about a topic: another topic has its name now."""
        for place in [one for one in self._passed if one.topic == topic]:
            del self._passed[place]

    def deletable(self, now_ms: int, unknown: Collection[str] = ()) -> Mapping[TopicPartition, int]:
        """Return, once, the offsets below which readers passed everything long enough ago.

        Args:
            now_ms: The present moment.
            unknown: Topics whose readers could not be queried: one may have started over.
        """
        found: dict[TopicPartition, int] = {}
        for place, history in self._passed.items():
            if place.topic in unknown:
                continue
            while history and now_ms - history[0][0] >= self.keep_ms:
                found[place] = history.popleft()[1]
        for place in found:
            if not self._passed[place]:
                del self._passed[place]
        return found
