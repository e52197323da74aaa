"""An order-free summary of a set of messages that adds up. Spec: K29."""

from __future__ import annotations

from dataclasses import dataclass

BLOCK_OFFSETS = 4096
"""Source offsets that one certificate speaks for. Spec: K29."""


@dataclass(frozen=True, slots=True)
class Digest:
    """Count, exclusive or and the sums of both halves of the identities' hashes.

    Equal digests mean equal multisets of messages, but for chances of 2^-64 and less: a message
    that comes twice cancels out of `xor` and shows in `count` and the sums.
    """

    count: int = 0
    xor: int = 0
    high: int = 0
    low: int = 0

    def __add__(self, other: Digest) -> Digest:
        """Return the digest of both sets together."""
        return Digest(
            self.count + other.count,
            self.xor ^ other.xor,
            self.high + other.high,
            self.low + other.low,
        )


NOTHING = Digest()
