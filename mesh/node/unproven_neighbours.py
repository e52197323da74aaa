"""Neighbours whose offers stay unproven are read again from the beginning. Spec: K23, R8.

After a cut longer than tombstones are kept, withdrawals are missing from a control topic for good;
no later record of it would ever prove a scope again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from mesh.model.control import Scope
from mesh.node.neighbour import Neighbour

PATIENCE_MS = 30_000
"""How long the offers of a neighbour that is heard may stay unproven before all is read again."""

PATIENCE_MAX_MS = 600_000
"""Each reading in vain doubles that, up to this."""


@dataclass(slots=True)
class UnprovenNeighbours:
    """Since when the offers of which neighbours are unproven, and how patient that makes."""

    _since_ms: dict[str, int] = field(default_factory=dict)
    _patience_ms: dict[str, int] = field(default_factory=dict)

    def due(
        self,
        neighbours: Mapping[str, Neighbour],
        offered: Callable[[str], Iterable[Scope]],
        now_ms: int,
    ) -> Iterator[str]:
        """Yield the neighbours who are to be read again.

        Args:
            neighbours: All.
            offered: Returns the scopes in which one offers interest.
            now_ms: The present moment.
        """
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
            patience_ms = self._patience_ms.setdefault(name, PATIENCE_MS)
            if now_ms - since_ms >= patience_ms:
                del self._since_ms[name]
                self._patience_ms[name] = min(2 * patience_ms, PATIENCE_MAX_MS)
                yield name
