"""When a node reports its state: once a second, and at once when it has changed. Spec: K32."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mesh.model.control import BEAT_MS, ChangeStatus, EndpointStatus, Heartbeat, LinkStatus
from mesh.model.effects import WriteHeartbeat, WriteLinkState
from mesh.model.words import EndpointWord
from mesh.node.demands import Demands
from mesh.node.learner import Learner

NEWS_MS = 100
"""Least time between a heartbeat and one with news: links may come and go often."""

ENDPOINTS_BYTES = 30_000
"""Most bytes of a heartbeat about endpoints, of which clients may have any number: one that is too
large for a record could never be written, and nobody could lead. On the wire a character that
is not ASCII takes up to three times as much, and any mesh's records may have 100 kB."""


@dataclass(slots=True)
class Beating:
    """The heartbeats of one leader.

    News does not wait for the next beat: the same beat is sent again, with what is new. It keeps
    its number, because that counts seconds: a node that misses ten beats is down, and one that is
    ten behind is cut off. So nobody takes it for another sign of life.

    Attributes:
        epoch: Of the leadership.
        change: What was reported last about topology changes.
    """

    epoch: int
    change: ChangeStatus | None = None
    _last: Heartbeat | None = None
    _beat_at_ms: int = 0
    _last_at_ms: int = 0

    def beat(
        self,
        learner: Learner,
        now_ms: int,
        demands: Demands,
        *,
        is_ready: bool,
        change: ChangeStatus | None,
        lost_topology: int = 0,
    ) -> Iterator[WriteHeartbeat | WriteLinkState]:
        """Beat once a second, and report to each neighbour the last beat read from it.

        Between two beats only news is sent: topology changes at once, because somebody waits for
        them and each stage has few; anything else at most every `NEWS_MS`. What consumers of
        queues demand changes all the time, and is not news.

        Args:
            learner: What the node knows of its neighbours, its clients and its faults.
            now_ms: The present moment.
            demands: What consumers of queues ask for here.
            is_ready: Whether the node serves.
            change: How far it has followed a change of the topology; None if there is none.
            lost_topology: Number of the topology that `mesh.config` lacks; 0 if it lacks none.
        """
        last = self._last
        is_due = last is None or now_ms - self._beat_at_ms >= BEAT_MS
        if not is_due and change == self.change and now_ms - self._last_at_ms < NEWS_MS:
            return
        number = 0 if last is None else last.beat
        links: list[LinkStatus] = [
            learner.faults.seen(neighbour.status(learner.faults.of_neighbour(name)))
            for name, neighbour in learner.neighbours.items()
        ]
        faults = learner.faults.endpoints.values()
        full = sorted(faults, key=lambda one: one.state != EndpointWord.FULL)
        clients = learner.clients
        told = [*full, *clients.queues.statuses(), *clients.wanted.unheard()]
        endpoints = _as_fits(told)
        queues = (
            demands.announced(self.epoch, number + 1) if last is None or is_due else last.queues
        )
        beat = Heartbeat(
            self.epoch,
            number + is_due,
            is_ready,
            tuple(links),
            endpoints,
            change,
            queues,
            lost_topology=lost_topology,
        )
        self._last_at_ms = now_ms
        if beat == last:
            return
        self._last, self.change = beat, change
        yield WriteHeartbeat(beat)
        if is_due:
            self._beat_at_ms = now_ms
            for name, neighbour in learner.neighbours.items():
                yield WriteLinkState(name, *neighbour.beat)

    @property
    def number(self) -> int:
        """Number of the newest heartbeat sent; 0 before the first."""
        return 0 if self._last is None else self._last.beat

    @property
    def has_begun(self) -> bool:
        """Whether a heartbeat was sent yet."""
        return self._last is not None


def _as_fits(statuses: Sequence[EndpointStatus]) -> tuple[EndpointStatus, ...]:
    """Return as many endpoint statuses as fit; the last one says how many more there are."""
    size = 0
    for count, one in enumerate(statuses):
        size += len(f"{one.endpoint} {one.state} {one.reason}".encode())
        if count and size > ENDPOINTS_BYTES:
            last = statuses[count - 1]
            more = len(statuses) - count
            reason = f"{last.reason}; and {more} more endpoints have something to report"
            return (*statuses[: count - 1], replace(last, reason=reason))
    return tuple(statuses)
