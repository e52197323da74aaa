"""Which links a change made, and how old what crosses them may be. Spec: K10, K28."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mesh.model.control import Lineage
from mesh.model.frames import Era, MessageClass
from mesh.model.topics import TopicNames


@dataclass(slots=True)
class LinkAges:
    """The links of a node by the changes that made them.

    Attributes:
        numbers: Guaranteed outboxes, both ways, of links that a change made, and its number.
        made_after: Neighbours whose links a change made, and the number of the topology that was
            in force until then.
    """

    numbers: dict[str, int] = field(default_factory=dict)
    made_after: dict[str, int] = field(default_factory=dict)
    lineage: Lineage | None = None
    _limits: Sequence[int] = (0,)
    _last: int = 0

    def follow(self, lineage: Lineage, names: TopicNames, node: str) -> None:
        """Go by another topology."""
        guaranteed = MessageClass.GUARANTEED
        self.lineage, self.numbers, self.made_after = lineage, {}, {}
        self._limits = sorted({0, *(link.before for link in lineage.links)})
        for one, other, number, before in lineage.links:
            if node in (one, other):
                self.numbers[names.outbox(one, other, guaranteed)] = number
                self.numbers[names.outbox(other, one, guaranteed)] = number
                self.made_after[other if one == node else one] = before
        self._last = max(self.made_after.values(), default=0)

    def barred(self, eras: Iterable[Era], domain: bytes) -> tuple[str, ...]:
        """Return the neighbours whose links messages of these eras do not cross, sorted.

        Those are the links that were made when a later topology was in force than the one which
        took the messages. No topology has both the way that led them here and such a link: behind
        it they may have arrived by a way that has ended since. What was taken before this series
        of topologies began is older than all of them.
        """
        number = next((era.number for era in eras if era.domain == domain), 0)
        if number >= self._last:
            return ()
        return tuple(sorted(name for name, after in self.made_after.items() if after > number))

    def oldest_alike(self, era: Era) -> Era:
        """Return the oldest era that no link of the mesh, wherever it is, tells from this one.

        Whatever topology comes next tells these no more apart either: links that stay keep their
        numbers, and those that it makes carry nothing that is older than the present one.
        """
        if self.lineage is None or era.domain != self.lineage.domain:
            return era
        return Era(era.domain, self._limits[bisect_right(self._limits, era.number) - 1])
