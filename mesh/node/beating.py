"""When a node tells how it is: once a second, and at once when that has changed. Spec: K32."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mesh.model.control import FULL, ChangeStatus, EndpointStatus, Heartbeat, LinkStatus
from mesh.model.effects import WriteHeartbeat, WriteLinkState
from mesh.node.demands import Demands
from mesh.node.learner import Learner

BEAT_MS = 1000
"""Time between heartbeats. Spec: K32."""

NEWS_MS = 100
"""Least time between a heartbeat and one that tells news: links may come and go often."""

ENDPOINTS_BYTES = 30_000
"""So much of a heartbeat may tell of endpoints, of which clients may have any number: one that is
too large for a record could never be written, and nobody could lead. On the wire a character that
is not ASCII takes up to three times as much, and any mesh's records may have 100 kB."""


@dataclass(slots=True)
class Beating:
    """The heartbeats of one leader.

    News do not wait for the next beat: the same beat is told again, with what is new. It keeps
    its number, because that counts seconds: who misses ten beats is down, and who is ten behind
    is cut off. So nobody takes it for another sign of life.

    Attributes:
        epoch: Of the leadership.
        change: What was told last of changes of the topology.
    """

    epoch: int
    change: ChangeStatus | None = None
    _told: Heartbeat | None = None
    _beat_at_ms: int = 0
    _told_at_ms: int = 0

    def beat(
        self,
        learner: Learner,
        now_ms: int,
        demands: Demands,
        *,
        is_ready: bool,
        change: ChangeStatus | None,
    ) -> Iterator[WriteHeartbeat | WriteLinkState]:
        """Beat once a second, and tell each neighbour the last beat read of it.

        Between two beats tell only what is news: of changes at once, because somebody waits for
        it and each stage has few; of anything else with `NEWS_MS` between. What consumers of
        queues demand changes all the time, and is none.
        """
        told = self._told
        is_due = told is None or now_ms - self._beat_at_ms >= BEAT_MS
        if not is_due and change == self.change and now_ms - self._told_at_ms < NEWS_MS:
            return
        number = 0 if told is None else told.beat
        links: list[LinkStatus] = [
            learner.troubles.seen(neighbour.status(learner.troubles.of_neighbour(name)))
            for name, neighbour in learner.neighbours.items()
        ]
        full = sorted(learner.troubles.endpoints.values(), key=lambda one: one.state != FULL)
        endpoints = _as_fits([*full, *learner.queues.statuses()])
        queues = demands.told(self.epoch, number + 1) if told is None or is_due else told.queues
        beat = Heartbeat(
            self.epoch, number + is_due, is_ready, tuple(links), endpoints, change, queues
        )
        self._told_at_ms = now_ms
        if beat == told:
            return
        self._told, self.change = beat, change
        yield WriteHeartbeat(beat)
        if is_due:
            self._beat_at_ms = now_ms
            for name, neighbour in learner.neighbours.items():
                yield WriteLinkState(name, *neighbour.beat)

    @property
    def has_begun(self) -> bool:
        """Whether anything was told yet."""
        return self._told is not None


def _as_fits(statuses: Sequence[EndpointStatus]) -> tuple[EndpointStatus, ...]:
    """Return the first of what is to be told of endpoints; the last says of how many more."""
    size = 0
    for count, one in enumerate(statuses):
        size += len(f"{one.endpoint} {one.state} {one.reason}".encode())
        if count and size > ENDPOINTS_BYTES:
            last = statuses[count - 1]
            reason = f"{last.reason}; and of {len(statuses) - count} more something is to be told"
            return (*statuses[: count - 1], replace(last, reason=reason))
    return tuple(statuses)
