"""Certificates of closed blocks, summed up by the hour: what is left of them after two days.

Spec: K29.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from streaming.audits.block import Certificate
from streaming.tables.rows import HOUR_MS

PUBLISH_EVERY_MS = 60_000
"""How often an hour that is not over is told at most, in milliseconds."""


class HourKey(NamedTuple):
    """Certificates of one source and endpoint that closed within an hour, numbered from 1970 on."""

    source: str
    endpoint: str
    hour: int

    def __str__(self) -> str:
        """Return the key of its record."""
        return f"{self.source} {self.endpoint} {self.hour}"


@dataclass(slots=True)
class Hour:
    """What the certificates of an hour say together.

    Attributes:
        certificates: How many there are.
        differing: Of these, those that say that something differs.
        unsure: Of these, those that are equal and no proof.
        expected: Messages that had to come.
        delivered: Records that came.
    """

    certificates: int = 0
    differing: int = 0
    unsure: int = 0
    expected: int = 0
    delivered: int = 0


@dataclass(slots=True)
class Hours:
    """Sums that are not told for good.

    Attributes:
        sums: By source, endpoint and hour.
        changed: Those to be told.
        published_ms: When they were told the last time.
    """

    sums: dict[HourKey, Hour] = field(default_factory=dict)
    changed: dict[HourKey, None] = field(default_factory=dict)
    published_ms: int = 0

    def close(self, certificate: Certificate, now_ms: int) -> None:
        """Add the last certificate of a block; the hour is that in which the block closed."""
        key = HourKey(certificate.source, certificate.endpoint, now_ms // HOUR_MS)
        if (known := self.sums.get(key)) is None:
            known = self.sums[key] = Hour()
        known.certificates += 1
        known.differing += not certificate.equal
        known.unsure += certificate.equal and not certificate.sure
        known.expected += certificate.expected
        known.delivered += certificate.delivered
        self.changed[key] = None

    def take(self, now_ms: int, *, is_last: bool = False) -> Iterator[tuple[HourKey, Hour]]:
        """Yield the hourly summaries to publish now, and forget the hours that are over."""
        if not is_last and 0 <= now_ms - self.published_ms < PUBLISH_EVERY_MS:
            return
        self.published_ms = now_ms
        for key in self.changed:
            yield key, self.sums[key]
        self.changed.clear()
        for key in [one for one in self.sums if one.hour < now_ms // HOUR_MS]:
            del self.sums[key]
