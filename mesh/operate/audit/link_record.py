"""What crossed links in the past, as the auditor wrote it: by minute for a day, then by hour.

Nothing is written for a link that carried nothing: the record that its Kafka cluster was read then
shows that. If neither is on record, nobody knows. Spec: schemas/audit/minutes.schema.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mesh.operate.minutes import MINUTE_MS, MINUTES_KEPT, Minutes

HOUR_MS = 60 * MINUTE_MS
HOURS_KEPT = 30 * 24
COUNTS = ("guaranteed", "direct", "guaranteed_bytes", "direct_bytes", "repairs", "control")
WAITED = "waited"
COUNT_MAX = 1 << 53


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFigures:
    """What crossed one direction of a link in a minute, or in an hour.

    Attributes:
        over_s: Seconds that it covers.
        guaranteed, direct: Messages by class.
        guaranteed_bytes, direct_bytes: Bytes of their frames.
        repairs: Messages sent again as repairs.
        control: Changes of interest that the reader wrote for this link.
        waited: Records of the guaranteed outbox that nobody fetched in that time; None: unknown.
    """

    over_s: int
    guaranteed: int = 0
    direct: int = 0
    guaranteed_bytes: int = 0
    direct_bytes: int = 0
    repairs: int = 0
    control: int = 0
    waited: int | None = None


class _Grain:
    """The record in spans of one length."""

    def __init__(self, span_ms: int, kept: int) -> None:
        self.span_ms = span_ms
        self._kept = kept
        self._read: dict[str, Minutes] = {}
        self._links: dict[str, dict[str, Minutes]] = {}

    def take(self, entry: Mapping[str, Any], limit_ms: int) -> None:
        """Take a record, unless it is about a time after `limit_ms`."""
        from_ms, minutes = int(entry["from_ms"]), int(entry["minutes"])
        if not 0 <= from_ms <= limit_ms or minutes <= 0:
            return
        if isinstance(entry.get("kafka"), str):
            self._put(self._read, entry["kafka"], from_ms, minutes)
        elif isinstance(entry.get("link"), str):
            series = self._links.setdefault(entry["link"], {})
            for name in (*COUNTS, WAITED):
                count = entry.get(name)
                if isinstance(count, int) and 0 <= count < COUNT_MAX:
                    is_known = name == WAITED  # here a zero differs from nothing
                    self._put(series, name, from_ms, count + is_known)

    def _put(self, series: dict[str, Minutes], name: str, at_ms: int, count: int) -> None:
        if count or name in series:
            series.setdefault(name, Minutes(self.span_ms, self._kept)).put(at_ms, count)

    def minutes_read(self, kafka: str, at_ms: int) -> int:
        """Return how many minutes of a moment's span were read completely."""
        read = self._read.get(kafka)
        return read.of(at_ms // self.span_ms) if read is not None else 0

    def is_any_read(self, at_ms: int) -> bool:
        """Return whether any Kafka cluster was read in the span of a moment."""
        return any(one.of(at_ms // self.span_ms) for one in list(self._read.values()))

    def at(self, link: str, kafka: str, at_ms: int) -> LinkFigures | None:
        """Return what crossed a link in the span of a moment."""
        minutes = self.minutes_read(kafka, at_ms)
        if not minutes:
            return None
        number, series = at_ms // self.span_ms, self._links.get(link, {})
        found = {name: one.of(number) for name, one in list(series.items())}
        waited = found.pop(WAITED, 0)
        return LinkFigures(over_s=60 * minutes, waited=waited - 1 if waited else None, **found)

    def since_ms(self, now_ms: int) -> int | None:
        """Return the earliest kept moment at which any Kafka cluster was read."""
        last, read = now_ms // self.span_ms, list(self._read.values())
        for number in range(max(0, last - self._kept + 1), last + 1):
            if any(one.of(number) for one in read):
                return number * self.span_ms
        return None


class LinkRecord:
    """What crossed every link in the past."""

    def __init__(self) -> None:
        self._grains = {
            "minutes": _Grain(MINUTE_MS, MINUTES_KEPT),
            "link-hours": _Grain(HOUR_MS, HOURS_KEPT),
        }

    def take(self, table: str, entry: Mapping[str, Any], at_ms: int) -> None:
        """Take a record of the auditor.

        Args:
            table: `minutes` or `link-hours`.
            entry: Its content.
            at_ms: When it was written: it is about the past.
        """
        self._grains[table].take(entry, at_ms + HOUR_MS)

    def at(self, link: str, kafka: str, at_ms: int) -> LinkFigures | None:
        """Return what crossed a link in the minute of a moment, or else in its hour.

        Args:
            link: `tk1->ny1`.
            kafka: The Kafka cluster of its source.
            at_ms: The moment, ms since 1970.

        Returns:
            None if it is not on record.
        """
        for grain in self._grains.values():
            if (found := grain.at(link, kafka, at_ms)) is not None:
                return found
        return None

    def is_read(self, kafka: str, at_ms: int) -> bool:
        """Return whether the auditor had read all of a Kafka cluster at a moment."""
        return any(grain.minutes_read(kafka, at_ms) for grain in self._grains.values())

    def is_any_read(self, at_ms: int) -> bool:
        """Return whether the auditor read any Kafka cluster at a moment."""
        return any(grain.is_any_read(at_ms) for grain in self._grains.values())

    def since_ms(self, now_ms: int) -> int | None:
        """Return the earliest moment on record, or None."""
        begins = [grain.since_ms(now_ms) for grain in self._grains.values()]
        return min((one for one in begins if one is not None), default=None)
