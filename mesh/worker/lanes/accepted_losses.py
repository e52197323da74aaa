"""Losses that operators have accepted: the sources that stopped for them go on. Spec: R6."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mesh.lane.lane import Lane
from mesh.model.control import Stop
from mesh.transport.port import TopicPartition

RETRY_MS = 1_000
"""How often to retry a stopped source whose loss has been accepted."""


@dataclass(slots=True)
class AcceptedLosses:
    """What was accepted, until the source goes on or the consent ends."""

    _stops: dict[TopicPartition, Stop] = field(default_factory=dict)
    _tried_ms: int = -RETRY_MS

    def add(self, stop: Stop) -> None:
        """Record that what a stop names is accepted as lost."""
        self._stops[TopicPartition(stop.topic, stop.partition)] = stop

    def due(
        self,
        owned: Mapping[int, Lane],
        lanes: int,
        consents: Mapping[tuple[str, int], Stop],
        now_ms: int,
    ) -> Iterator[tuple[Lane, Stop]]:
        """Yield the lanes whose sources may go on now.

        Args:
            owned: Those of this worker, by number.
            lanes: How many its node has.
            consents: What operators still accept, by topic and partition.
            now_ms: The present moment.
        """
        if not self._stops or now_ms - self._tried_ms < RETRY_MS:
            return
        self._tried_ms = now_ms
        for at, stop in list(self._stops.items()):
            lane = owned.get(at.partition % lanes)
            is_stopped = lane is not None and lane.progress.stopped.get(at) == stop
            if lane is None or not is_stopped or consents.get((at.topic, at.partition)) != stop:
                del self._stops[at]
            elif not lane.holds_any:  # a held target could not be notified of the loss
                yield lane, stop
