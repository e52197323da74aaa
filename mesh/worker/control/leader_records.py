"""What the leader writes on the control topic besides its offers, and what others have overwritten.

Its name, how far subscriptions are known, stops and nodes' links: each is written once. If a
stranger overwrites one, compaction leaves nothing else, and a worker that starts later would wait
forever: a worker of the same node for its name and its links, and lanes for that worker. So the
leader reads its own topic and writes such records again, just as it does with its offers
(`mesh.node.foreign_records`). Spec: K4, K16, R12.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mesh.model.patience import Patience
from mesh.transport.port import Headers

PATIENCE_MS = Patience(2_000, 60_000)
"""The leader reads its own writes a moment later, or much later where brokers are slow. Each time
it has written a record again it waits twice as long, until it has read what it wrote last."""


class LeaderRecord(NamedTuple):
    """A record that the leader wrote; its value is None where the leader withdrew it."""

    value: bytes | None
    headers: Headers | None = None


@dataclass(slots=True)
class LeaderRecords:
    """The newest record of each key that the leader wrote.

    Attributes:
        differing: Keys of those that others overwrote, and when that was first seen.
    """

    differing: dict[bytes, int | None] = field(default_factory=dict)
    _said: dict[bytes, LeaderRecord] = field(default_factory=dict)
    _patience_ms: dict[bytes, int] = field(default_factory=dict)

    def begin(self, said: Mapping[bytes, bytes]) -> None:
        """Have a new leader vouch for these records of its predecessor, and for no others."""
        self._said = {key: LeaderRecord(value) for key, value in said.items()}
        self.differing.clear()
        self._patience_ms.clear()

    def say(self, key: bytes, record: LeaderRecord) -> None:
        """Note what the leader writes."""
        self._said[key] = record

    def read(self, key: bytes, value: bytes | None) -> None:
        """Compare a record read from the topic; call in log order."""
        if key not in self._said:
            return
        if value == self._said[key].value:
            self.differing.pop(key, None)
            self._patience_ms.pop(key, None)
        else:
            self.differing.setdefault(key, None)

    def overwritten(self, now_ms: int) -> Sequence[tuple[bytes, LeaderRecord]]:
        """Return the records to write again: they have differed for long enough."""
        found = []
        for key, since_ms in list(self.differing.items()):
            patience_ms = self._patience_ms.get(key, PATIENCE_MS.first)
            if since_ms is None:
                self.differing[key] = now_ms
            elif now_ms - since_ms >= patience_ms:
                del self.differing[key]
                self._patience_ms[key] = PATIENCE_MS.after(patience_ms)
                found.append((key, self._said[key]))
        return found
