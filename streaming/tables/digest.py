"""An order-free summary of a set of messages that adds up. Spec: K29."""

from __future__ import annotations

from typing import NamedTuple

BLOCK_BITS = 12

BLOCK_OFFSETS = 1 << BLOCK_BITS
"""Number of source offsets that one certificate covers. Spec: K29."""


class Digest(NamedTuple):
    """Count, exclusive or and the sums of both halves of the identities' hashes.

    Equal digests mean equal multisets of messages with equal contents, but for chances of 2^-64
    and less: a message that comes twice cancels out of `xor` and shows in `count` and the sums.
    Chances, not malice: an attacker who chooses what is hashed can make two sets look alike.

    Attributes:
        count: Messages.
        xor: Exclusive or of the hashes of their identities.
        high: Sum of the upper halves of these hashes.
        low: Sum of the lower halves.
        content: Exclusive or of the hashes of identity and content together: for the same
            identities it shows whether each has its own content.
    """

    count: int = 0  # type: ignore[assignment]  # nobody counts the parts of a digest
    xor: int = 0
    high: int = 0
    low: int = 0
    content: int = 0

    def __add__(self, other: Digest) -> Digest:  # type: ignore[override]  # nor joins them
        """Return the digest of both sets together."""
        if self is NOTHING:
            return other
        if other is NOTHING:
            return self
        return Digest(
            self.count + other.count,
            self.xor ^ other.xor,
            self.high + other.high,
            self.low + other.low,
            self.content ^ other.content,
        )

    def __sub__(self, other: Digest) -> Digest:
        """Return the digest of what a set holds beyond a part of it."""
        return Digest(
            self.count - other.count,
            self.xor ^ other.xor,
            self.high - other.high,
            self.low - other.low,
            self.content ^ other.content,
        )

    def has_ids_of(self, other: Digest) -> bool:
        """Return whether both are of the same messages, whatever these hold."""
        mine = self.count, self.xor, self.high, self.low
        return mine == (other.count, other.xor, other.high, other.low)

    @property
    def ids_text(self) -> str:
        """Return the digest of the identities, for people."""
        return f"{self.count}:{_hex(self.xor)}:{self.high:x}:{self.low:x}"

    @property
    def content_text(self) -> str:
        """Return the digest of the contents, for people."""
        return _hex(self.content)


def _hex(signed: int) -> str:
    return f"{signed & 0xFFFFFFFFFFFFFFFF:016x}"


NOTHING = Digest()
