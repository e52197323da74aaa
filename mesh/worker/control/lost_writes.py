"""Whether what a leader wrote still stands: a repeated offset shows that a log lost its end.

Readers of what is lost find their position outside the log. But nobody would miss what nobody had
read yet: the node's name, marks, acknowledgements, each written once. The next leader
writes them again. Spec: K4, K16, K23, K24.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mesh.transport.port import DeliveryCallback


@dataclass(slots=True)
class LostWrites:
    """The offset of each topic's newest record, as brokers gave it, and topics cut off."""

    _last: dict[str, int] = field(default_factory=dict)
    _cut_off: dict[str, None] = field(default_factory=dict)

    @property
    def cut_off(self) -> Sequence[str]:
        """Topics that have lost their end since their newest record was read or written."""
        return list(self._cut_off)

    def note(self, topic: str, offset: int) -> None:
        """Record where a record stands, in the order in which they were read or written.

        Args:
            topic: Its topic.
            offset: Negative if the broker did not say: it had the record already.
        """
        if offset < 0:
            return
        if offset <= self._last.get(topic, -1):
            self._cut_off[topic] = None
        self._last[topic] = offset

    def watching(self, topic: str) -> DeliveryCallback:
        """Return a callback that notes where a record is written."""

        def written(_partition: int, offset: int, _fault: str) -> None:
            self.note(topic, offset)

        return written
