"""What crossed each link in each minute, and what is left of it after a day. Spec: DESIGN 7.

Minutes are those of brokers' clocks, numbered from 1970 on. A minute is told once everything of
it has been read: a Kafka cluster's own heartbeats say how late it is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import NamedTuple

from mesh.model.control import Scope
from mesh.model.topology import Topology
from streaming.audits.chains import ChainHead, ChainKey
from streaming.audits.tickets import PositionKey
from streaming.tables.rows import MINUTE_MS, MinuteRow, SmallRow, TopicPartition
from streaming.tables.topics import DIRECT, place_of

HOUR_MINUTES = 60
GRACE_MS = 20_000
"""A transaction is open for so long at most: what it wrote has an earlier time than it shows."""

PENDING_MAX = 24 * 60
"""Minutes of one Kafka cluster that may wait to be told; of more than a day nothing is told."""


@dataclass(slots=True)
class Crossed:
    """What crossed one direction of a link.

    Attributes:
        guaranteed, direct: Messages by class, repairs left out.
        guaranteed_bytes, direct_bytes: Bytes of their frames, repairs left out.
        repairs: Messages sent again as repairs.
        control: Changes of interest that the reader wrote for this link, addresses left out.
        waited: Records of the guaranteed outbox that waited for the reader all the time: the
            fewest at any look; None where nobody looked.
    """

    guaranteed: int = 0
    direct: int = 0
    guaranteed_bytes: int = 0
    direct_bytes: int = 0
    repairs: int = 0
    control: int = 0
    waited: int | None = None

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing to publish of this minute."""
        return not any(getattr(self, one.name) for one in fields(self))

    def add(self, other: Crossed) -> None:
        """Take what crossed in another minute; the most that waited stands for all."""
        for name in ("guaranteed", "direct", "guaranteed_bytes", "direct_bytes"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.repairs += other.repairs
        self.control += other.control
        if other.waited is not None:
            self.waited = max(self.waited or 0, other.waited)


class MinutesReport(NamedTuple):
    """Something to be told of a minute, or of an hour.

    Attributes:
        of: A direction of a link (`tk1->ny1`), or a Kafka cluster.
        first: The first minute.
        span: How many minutes it stands for.
        minutes: How many of them were read whole.
        crossed: What crossed the link; None: all that the Kafka cluster had written was read, so
            that links of which nothing is told carried nothing.
    """

    of: str
    first: int
    span: int
    minutes: int
    crossed: Crossed | None

    @property
    def key(self) -> str:
        """Key of its record."""
        return f"{self.of} {self.first // self.span}"


@dataclass(slots=True)
class LinkHour:
    """An hour of one Kafka cluster that is not over.

    Attributes:
        number: From 1970 on.
        minutes: How many of its minutes were read whole.
        links: What crossed each link in these.
    """

    number: int
    minutes: int = 0
    links: dict[str, Crossed] = field(default_factory=dict)


@dataclass(slots=True)
class LinkMinutes:
    """Minutes that are not told yet.

    Attributes:
        prefix: Start of every topic name.
        pending: Kafka cluster -> minute -> link -> what crossed it.
        clocks: Kafka cluster -> time of its newest heartbeat, in ms since 1970.
        reported: Kafka cluster -> the last minute that was told; absent until all was read once.
        hours: Kafka cluster -> its hour.
    """

    prefix: str
    pending: dict[str, dict[int, dict[str, Crossed]]] = field(default_factory=dict)
    clocks: dict[str, int] = field(default_factory=dict)
    reported: dict[str, int] = field(default_factory=dict)
    hours: dict[str, LinkHour] = field(default_factory=dict)

    def absorb(
        self, rows: Sequence[MinuteRow], small: Sequence[SmallRow], kafka: str, topology: Topology
    ) -> None:
        """Take a batch of one Kafka cluster."""
        beats = [one.at_ms for one in small if self._is_beat(one)]
        if beats:
            self._set_clock(kafka, max(beats))
        for row in rows:
            place = place_of(self.prefix, row.place.topic)
            if row.scope is None:
                self._count(row, kafka, place.link, is_direct=place.letter == DIRECT)
                continue
            for source in asked_of(topology, place.node, row.scope):
                home = topology.nodes[source].kafka
                link = f"{source}->{place.node}"
                self._crossed(home, row.minute, link).control += row.messages

    def _is_beat(self, row: SmallRow) -> bool:
        """Return whether a record is a heartbeat; clients may write one of that key at any time."""
        return row.key == "heartbeat" and place_of(self.prefix, row.place.topic).kind == "control"

    def _set_clock(self, kafka: str, at_ms: int) -> None:
        """Follow the clock of a Kafka cluster; where it was set back, start over."""
        reported = self.reported.get(kafka)
        if reported is not None and at_ms // MINUTE_MS < reported - HOUR_MINUTES:
            self.lose(kafka)
        self.clocks[kafka] = at_ms

    def _count(self, row: MinuteRow, kafka: str, link: str, *, is_direct: bool) -> None:
        crossed = self._crossed(kafka, row.minute, link)
        if is_direct:
            crossed.direct += row.messages
            crossed.direct_bytes += row.size
        else:
            crossed.guaranteed += row.messages
            crossed.guaranteed_bytes += row.size
        crossed.repairs += row.repairs

    def _crossed(self, kafka: str, minute: int, link: str) -> Crossed:
        """Return what crossed a link; what shows up late counts in a minute that is not told."""
        minute = max(minute, self.reported.get(kafka, minute - 1) + 1)
        return self.pending.setdefault(kafka, {}).setdefault(minute, {}).setdefault(link, Crossed())

    def look(
        self,
        kafka: str,
        heads: Mapping[ChainKey, ChainHead],
        positions: Mapping[PositionKey, int],
        homes: Mapping[str, str],
    ) -> None:
        """Note what waits on the links out of a Kafka cluster whose readers are known just now.

        Args:
            kafka: The Kafka cluster.
            heads: The last frame of every chain.
            positions: How far nodes have read.
            homes: Node -> Kafka cluster.
        """
        now = self.clocks.get(kafka)
        if now is None:
            return
        ends: dict[TopicPartition, int] = {}
        for chain, head in heads.items():
            ends[chain.outbox] = max(head.offset + 1, ends.get(chain.outbox, 0))
        waiting: dict[str, int] = {}
        for outbox, end in ends.items():
            place = place_of(self.prefix, outbox.topic)
            if homes.get(place.node) == kafka:
                read = positions.get(PositionKey(place.other, outbox), 0)
                waiting[place.link] = waiting.get(place.link, 0) + max(0, end - read)
        for link, count in waiting.items():
            crossed = self._crossed(kafka, now // MINUTE_MS, link)
            before = crossed.waited
            crossed.waited = count if before is None else min(before, count)

    def lose(self, kafka: str) -> None:
        """Forget what is unpublished, because records were deleted before they were read."""
        self.pending.pop(kafka, None)
        self.reported.pop(kafka, None)

    def take(self, kafka: str) -> Iterator[MinutesReport]:
        """Yield what is to be told of a Kafka cluster of which all that there is has been read.

        The first minute that is told is the first one that began after all was read once.
        """
        clock_ms = self.clocks.get(kafka)
        if clock_ms is None:
            return
        over = (clock_ms - GRACE_MS) // MINUTE_MS - 1
        last = self.reported.get(kafka)
        if last is None or over - last > PENDING_MAX:
            self.lose(kafka)
            self.reported[kafka] = (clock_ms + GRACE_MS) // MINUTE_MS
            return
        for minute in range(last + 1, over + 1):
            yield from self._tell(kafka, minute)

    def _tell(self, kafka: str, minute: int) -> Iterator[MinutesReport]:
        hour = self.hours.get(kafka)
        if hour is None or hour.number != minute // HOUR_MINUTES:
            yield from self._tell_hour(kafka)
            hour = self.hours[kafka] = LinkHour(minute // HOUR_MINUTES)
        hour.minutes += 1
        self.reported[kafka] = minute
        for link, crossed in sorted(self.pending.get(kafka, {}).pop(minute, {}).items()):
            if not crossed.is_nothing:
                yield MinutesReport(link, minute, 1, 1, crossed)
                hour.links.setdefault(link, Crossed()).add(crossed)
        yield MinutesReport(kafka, minute, 1, 1, None)

    def _tell_hour(self, kafka: str) -> Iterator[MinutesReport]:
        hour = self.hours.get(kafka)
        if hour is None:
            return
        first = hour.number * HOUR_MINUTES
        for link, crossed in sorted(hour.links.items()):
            yield MinutesReport(link, first, HOUR_MINUTES, hour.minutes, crossed)
        yield MinutesReport(kafka, first, HOUR_MINUTES, hour.minutes, None)


def asked_of(topology: Topology, reader: str, scope: str) -> Iterator[str]:
    """Yield the neighbours of which a node asks for what it offers in a scope. Spec: K22."""
    try:
        asked = Scope.parse(scope)
    except ValueError:
        return
    if reader not in topology.nodes:
        return
    for link in topology.links_of(reader):
        source = link.other(reader)
        if topology.zone_over(link, source) == asked.zone and asked.neighbour in ("", source):
            yield source
