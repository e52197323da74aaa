"""How many bytes a second cross a link that has a rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mesh.model.topology import LinkLimit


@dataclass(slots=True)
class TokenBucket:
    """So many bytes a second, and at most one second's worth at once.

    Attributes:
        rate: Bytes per second.
    """

    rate: float
    _level: float = field(init=False)
    _filled_ms: int | None = None

    def __post_init__(self) -> None:
        """Begin full."""
        self._level = self.rate

    def take(self, size: int, now_ms: int) -> int:
        """Take what has been read already; return how many ms to rest before the next."""
        elapsed_ms = now_ms - (self._filled_ms if self._filled_ms is not None else now_ms)
        self._filled_ms = now_ms
        self._level = min(self.rate, self._level + self.rate * elapsed_ms / 1000) - size
        return 0 if self._level >= 0 else int(-self._level * 1000 / self.rate) + 1


def token_buckets(
    limits: Mapping[frozenset[str], LinkLimit], node: str, neighbours: Sequence[str], lanes: int
) -> Mapping[str, TokenBucket]:
    """Return a lane's part of the rate of each link that has one, by neighbour."""
    found: dict[str, TokenBucket] = {}
    for neighbour in neighbours:
        limit = limits.get(frozenset((node, neighbour)))
        if limit is not None and limit.bytes_per_s is not None:
            found[neighbour] = TokenBucket(limit.bytes_per_s / lanes)
    return found
