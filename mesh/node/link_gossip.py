"""Which other nodes' link records a node passes on to its neighbours. Spec: K26, K27."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.model.effects import DropLinks, WriteLinks
from mesh.model.links import NodeLinks

RENEW_MS = 1_000
"""Minimum time between two updates of records that were passed on before, while no nodes are
configured apart: nobody waits for them, and a topology change is news about every node."""

UNUSED_MS = 60_000
"""How long a node's record is passed on although nobody needs it: the node may be gone."""


@dataclass(slots=True)
class LinkGossip:
    """The link records on the node's own control topic.

    Attributes:
        uuid: Of this node.
        written: Uuid -> sequence of the record there.
        is_behind: Whether something has to be updated later.
    """

    uuid: str
    written: dict[str, int] = field(default_factory=dict)
    is_behind: bool = False
    _renewed_ms: int = 0
    _unused: dict[str, int] = field(default_factory=dict)

    def is_due(self, now_ms: int) -> bool:
        """Return whether something has to be dropped by now."""
        return now_ms - min(self._unused.values(), default=now_ms) >= UNUSED_MS

    def step(
        self, records: Mapping[str, NodeLinks], near: Sequence[str], now_ms: int
    ) -> Iterator[WriteLinks | DropLinks]:
        """Write what is new, and drop what has been useless for long.

        Args:
            records: What each node says, this one included.
            near: Nodes whose records everybody needs at once, because some are configured apart.
            now_ms: Clock.
        """
        self.is_behind = False
        of_old = self.written if near else self._renewed(records, now_ms)
        for uuid in sorted({*near, *of_old, self.uuid}):
            if self.written.get(uuid, 0) < records[uuid].sequence:
                self.written[uuid] = records[uuid].sequence
                yield WriteLinks(records[uuid])
        unused = [uuid for uuid in self.written if uuid not in (*near, self.uuid)]
        since = {uuid: self._unused.get(uuid, now_ms) for uuid in unused}
        for uuid in [one for one in sorted(since) if now_ms - since[one] >= UNUSED_MS]:
            del self.written[uuid], since[uuid]
            yield DropLinks(uuid)
        self._unused = since

    def _renewed(self, records: Mapping[str, NodeLinks], now_ms: int) -> Sequence[str]:
        old = [uuid for uuid, sequence in self.written.items() if sequence < records[uuid].sequence]
        if old and now_ms - self._renewed_ms < RENEW_MS:
            self.is_behind = True
            return ()
        self._renewed_ms = now_ms
        return old
