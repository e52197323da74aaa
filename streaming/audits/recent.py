"""What was told last, of so many keys at most: whoever may write could name new ones for ever."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(dict[K, V]):
    """Values by key, the one that was put last at the end."""

    def put(self, key: K, value: V, keys_max: int) -> None:
        """Take a value; of more keys than that the one is forgotten that was put longest ago."""
        self.pop(key, None)
        self[key] = value
        if len(self) > keys_max:
            del self[next(iter(self))]
