"""What is known of consumers of queues, here and elsewhere; handed on with the heartbeat.

Every node repeats the newest that it knows of every member, so it comes as far as beats do. It is
no interest: nothing waits for it, and what is late or lost is replaced by the next beat.
Spec: DESIGN 6, K32.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mesh.model.demands import QueueDemand
from mesh.model.names import fold


@dataclass(slots=True)
class Demands:
    """The newest demand of each member of each queue.

    Attributes:
        node: Name of this node.
        own: Its own queues, and how much each could take in.
    """

    node: str
    own: dict[str, int] = field(default_factory=dict)
    _others: dict[tuple[str, str], QueueDemand] = field(default_factory=dict)

    def see(self, queue: str, room: int | None) -> None:
        """Take note of how much an own queue could take in; None: nothing is to be told of it."""
        self.own.pop(queue, None)
        if room is not None:
            self.own[queue] = room

    def hear(self, told: Iterable[QueueDemand]) -> None:
        """Take what a neighbour's heartbeat tells: of what is older nothing changes."""
        for one in told:
            key = (fold(one.queue), one.node)
            known = self._others.get(key)
            if one.node != self.node and (known is None or known.version < one.version):
                self._others[key] = one

    def told(self, epoch: int, beat: int) -> Sequence[QueueDemand]:
        """Return what a heartbeat of this node tells."""
        own = [
            QueueDemand(queue, self.node, epoch, beat, room)
            for queue, room in sorted(self.own.items())
        ]
        return [*own, *(one for _, one in sorted(self._others.items(), key=lambda item: item[0]))]

    def of(self, queue: str) -> Sequence[QueueDemand]:
        """Return what other members of a queue demand, by name."""
        name = fold(queue)
        return [one for (of, _), one in sorted(self._others.items(), key=_key) if of == name]


def _key(item: tuple[tuple[str, str], QueueDemand]) -> tuple[str, str]:
    return item[0]
