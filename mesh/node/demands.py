"""What is known of consumers of queues, here and elsewhere; passed on with the heartbeat.

Every node repeats the newest demand that it knows of every member, so demands travel as far as
beats do. They are no interest: nothing waits for them, and what is late or lost is replaced by the
next beat. A member whose beats have stopped demands nothing, and neither does a queue that it no
longer mentions: both are judged by the beats of the member itself, so that nodes which repeat one
another keep nothing alive. Spec: DESIGN 6, K32.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from mesh.model.control import BEAT_MS, Version
from mesh.model.demands import QueueDemand
from mesh.model.names import fold

BEATS = 3
"""How many beats of a member, or times of one here, a demand stays valid without a newer one."""

EXPIRES_MS = BEATS * BEAT_MS

FORGET_MS = 600_000
"""After this long a silent member's last beat is forgotten, too."""

ANNOUNCED_MAX = 2_000
"""Most demands in one heartbeat, the own ones first: 0.4 MB with the longest names. A node that
does not hear of a member sends it nothing in advance; what waits for it waits where it is."""


@dataclass(frozen=True, slots=True)
class _Newest:
    """The newest beat heard of a member, and when it arrived."""

    version: Version
    heard_ms: int


@dataclass(slots=True)
class Demands:
    """The newest demand of each member of each queue.

    Attributes:
        node: Name of this node.
        own: Its own queues, and how much each could take in.
    """

    node: str
    own: dict[str, int] = field(default_factory=dict)
    _empty: dict[str, int] = field(default_factory=dict)  # beats without any room
    _others: dict[tuple[str, str], QueueDemand] = field(default_factory=dict)
    _newest: dict[str, _Newest] = field(default_factory=dict)

    def see(self, queue: str, room: int | None) -> None:
        """Record how much an own queue could take in; None: do not announce it."""
        self.own.pop(queue, None)
        if room is not None:
            self.own[queue] = room
        if not room and room is not None:
            self._empty.setdefault(queue, 0)
        else:
            self._empty.pop(queue, None)

    def hear(self, demands: Iterable[QueueDemand], now_ms: int) -> None:
        """Take the demands in a neighbour's heartbeat; older ones change nothing."""
        for one in demands:
            if one.node == self.node:
                continue
            newest = self._newest.get(one.node)
            if newest is None or newest.version < one.version:
                self._newest[one.node] = _Newest(one.version, now_ms)
            key = (fold(one.queue), one.node)
            known = self._others.get(key)
            if known is None or known.version < one.version:
                self._others[key] = one
        self.expire(now_ms)

    def expire(self, now_ms: int) -> None:
        """Forget the demands of members that are silent, or now mention other queues only."""
        for key, one in list(self._others.items()):
            newest = self._newest[one.node]
            epoch, beat = newest.version
            is_late = (one.epoch, one.number + BEATS) < (epoch, beat)
            if is_late or now_ms - newest.heard_ms >= EXPIRES_MS:
                del self._others[key]
        for node, newest in list(self._newest.items()):
            if now_ms - newest.heard_ms >= FORGET_MS:
                del self._newest[node]

    def keep(self, nodes: Collection[str]) -> None:
        """Forget all other members: a newcomer under an old name restarts its beat numbers."""
        self._newest = {node: one for node, one in self._newest.items() if node in nodes}
        self._others = {key: one for key, one in self._others.items() if one.node in nodes}

    def announced(self, epoch: int, beat: int) -> Sequence[QueueDemand]:
        """Return the demands that a heartbeat of this node announces.

        A queue without room is announced until everybody has heard it, and no longer: demanding
        nothing is the same as being silent.
        """
        own = [
            QueueDemand(queue, self.node, epoch, beat, room)
            for queue, room in sorted(self.own.items())
            if self._empty.get(queue, 0) <= BEATS
        ]
        self._empty = {queue: min(count, BEATS) + 1 for queue, count in self._empty.items()}
        others = sorted(self._others.items(), key=lambda item: item[0])
        return [*own, *(one for _, one in others)][:ANNOUNCED_MAX]

    def of(self, queue: str) -> Sequence[QueueDemand]:
        """Return what other members of a queue demand, by name."""
        name = fold(queue)
        return [one for (of, _), one in sorted(self._others.items(), key=_key) if of == name]


def _key(item: tuple[tuple[str, str], QueueDemand]) -> tuple[str, str]:
    return item[0]
