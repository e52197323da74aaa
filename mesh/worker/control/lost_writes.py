"""Whether what a leader wrote still stands: offsets that come again say that a log lost its end.

Who had read what is lost finds that its position is outside the log. What nobody had read yet
nobody would miss: the node's name, marks, acknowledgements, each written once. The next leader
writes them again. Spec: K4, K16, K23, K24.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mesh.transport.port import DeliveryCallback


@dataclass(slots=True)
class LostWrites:
    """The offset of the newest record of each topic, as brokers gave it, and what came again."""

    _last: dict[str, int] = field(default_factory=dict)
    _cut_off: dict[str, None] = field(default_factory=dict)

    @property
    def cut_off(self) -> Sequence[str]:
        """Topics that have lost their end since their newest record was read or written."""
        return list(self._cut_off)

    def note(self, topic: str, offset: int) -> None:
        """Record where a record stands, in the order in which they were read or written.

        Args:
            topic: Whose.
            offset: Negative if the broker did not say: it had the record already.
        """
        if offset < 0:
            return
        if offset <= self._last.get(topic, -1):
            self._cut_off[topic] = None
        self._last[topic] = offset

    def watching(self, topic: str) -> DeliveryCallback:
        """Return what takes note of a record that is being written."""

        def written(_partition: int, offset: int, _fault: str) -> None:
            self.note(topic, offset)

        return written
