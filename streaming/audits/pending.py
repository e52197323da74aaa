"""What looks wrong and what is read later may excuse: it is held until that has been read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Pending(dict[K, tuple[float, V]]):
    """Values by key, each with the moment since which it is held, on the auditor's clock."""

    def hold(
        self,
        key: K,
        value: V,
        now_s: float,
        joined: Callable[[V, V], V] | None = None,
        held_max: float = inf,
    ) -> bool:
        """Hold a value, and return whether it is held; one held under the key already waits on.

        Args:
            key: Its key.
            value: The value.
            now_s: The auditor's clock, in seconds.
            joined: Makes one of what is held and this; None: what is held stays as it is.
            held_max: Keys that are held at most; of others nothing is held then.
        """
        held = self.get(key)
        if held is None:
            if len(self) >= held_max:
                return False
            self[key] = (now_s, value)
        elif joined is not None:
            self[key] = (held[0], joined(held[1], value))
        return True

    def take_due(self, wait_s: float, now_s: float) -> Iterator[tuple[K, V]]:
        """Yield what has waited for long enough, and hold it no longer.

        Args:
            wait_s: How long that is, in seconds.
            now_s: All that was written before this moment has been read.
        """
        for key, (since_s, value) in list(self.items()):
            if now_s - since_s >= wait_s:
                del self[key]
                yield key, value

    def go_ahead(self, ahead_s: float) -> None:
        """Go on by a clock that is so far ahead."""
        for key, (since_s, value) in self.items():
            self[key] = (since_s + ahead_s, value)
