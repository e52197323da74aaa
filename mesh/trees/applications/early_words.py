"""Words of applications whom their node does not know yet: they wait, within a limit.

A node whose `roles` cannot be read may wait for long. Spec: tree_layer 13.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mesh.model.tree_apps import AppSaid, content_bytes

BYTES_MAX = 64 << 20
"""Of all that waits; what comes beyond is left out."""

SAID_BYTES = 1_000
"""What one word takes beside what it carries."""


@dataclass(slots=True)
class EarlyWords:
    """Words that wait, in order."""

    _said: list[AppSaid] = field(default_factory=list)
    _bytes: int = 0

    def __len__(self) -> int:
        return len(self._said)

    def keep(self, said: AppSaid) -> bool:
        """Let a record wait; return whether there was room for it."""
        size = SAID_BYTES + content_bytes(said)
        has_room = self._bytes + size <= BYTES_MAX
        if has_room:
            self._bytes += size
            self._said.append(said)
        return has_room

    def take(self) -> list[AppSaid]:
        """Return what has waited; nothing waits any more."""
        said, self._said, self._bytes = self._said, [], 0
        return said
