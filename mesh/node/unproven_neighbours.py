"""Neighbours whose offers stay unproven are read again from the beginning. Spec: K23, R8.

After a cut longer than tombstones are kept, withdrawals are missing from a control topic for good;
no later record of it would ever prove a scope again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from mesh.model.control import Scope
from mesh.model.patience import Patience
from mesh.node.neighbour import Neighbour

PATIENCE_MS = Patience(30_000, 600_000)
"""How long the offers of a neighbour that is heard may stay unproven before all is read again."""

LOOK_MS = 1_000
"""How often to check while no offer is in doubt: checking all scopes of all neighbours at each tick
took a fifth of an idle worker's calls."""

START_PATIENCE_MS = 15_000
"""How long a start waits for the proof of a neighbour whose control topic it has read: as long as
for one that it cannot read. The neighbour may be away, or wait for this node in the same way."""

AGAIN_MS = 1_000
"""How long after that the start asks again to go without it, if it has not."""


@dataclass(slots=True)
class UnprovenNeighbours:
    """Since when which neighbours' offers are unproven, and how long to wait for them."""

    _since_ms: dict[str, int] = field(default_factory=dict)
    _patience_ms: dict[str, int] = field(default_factory=dict)
    _started_ms: dict[str, int] = field(default_factory=dict)
    _looked_ms: int = -LOOK_MS

    def due(
        self,
        neighbours: Mapping[str, Neighbour],
        offered: Callable[[str], Iterable[Scope]],
        now_ms: int,
    ) -> Iterator[str]:
        """Yield the neighbours to read again.

        Args:
            neighbours: All neighbours.
            offered: Returns the scopes in which one offers interest.
            now_ms: The present moment.
        """
        if not self._since_ms and now_ms - self._looked_ms < LOOK_MS:
            return
        self._looked_ms = now_ms
        for name in [one for one in self._patience_ms if one not in neighbours]:
            del self._patience_ms[name]
            self._since_ms.pop(name, None)
        for name, neighbour in neighbours.items():
            if not neighbour.is_doubtful(offered(name)):
                self._since_ms.pop(name, None)
                if neighbour.is_proven:
                    self._patience_ms.pop(name, None)
                continue
            since_ms = self._since_ms.setdefault(name, now_ms)
            patience_ms = self._patience_ms.setdefault(name, PATIENCE_MS.first)
            if now_ms - since_ms >= patience_ms:
                del self._since_ms[name]
                self._patience_ms[name] = PATIENCE_MS.after(patience_ms)
                yield name

    def overdue(self, neighbours: Mapping[str, Neighbour], now_ms: int) -> Iterator[str]:
        """Yield the neighbours whose proof a starting node no longer waits for.

        Each has its own time since it was read to its end: strangers who write again and again make
        proofs come and go, and those of all neighbours are seldom there at one moment. A neighbour
        that was yielded but not gone without is yielded again.
        """
        for name, neighbour in neighbours.items():
            if not neighbour.caught_up:
                continue
            since_ms = self._started_ms.setdefault(name, now_ms)
            if not neighbour.is_settled and now_ms - since_ms >= START_PATIENCE_MS:
                self._started_ms[name] = now_ms - START_PATIENCE_MS + AGAIN_MS
                yield name
