"""The newest values of a limited number of keys: strangers could make up new keys forever."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(dict[K, V]):
    """Values by key; the newest is the last."""

    def put(self, key: K, value: V, keys_max: int) -> bool:
        """Keep a value; if there are more than `keys_max` keys, drop the oldest and return so."""
        self.pop(key, None)
        self[key] = value
        if is_full := len(self) > keys_max:
            del self[next(iter(self))]
        return is_full
