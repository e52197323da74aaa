"""Deliveries that no open block takes: some wait, and some say what cannot be. Spec: K29."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mesh.model.frames import MessageClass
from streaming.audits.block import Receipt
from streaming.audits.findings import Finding
from streaming.audits.interest import EndpointKey
from streaming.audits.names import Names
from streaming.audits.strangers import (
    UNNAMED_S,
    Stranger,
    StrangerKey,
    forged_finding,
    mislabelled_finding,
    never_published_finding,
)
from streaming.tables.rows import DeliveryRow, SourceKey, TopicPartition
from streaming.tables.topics import INGRESS, place_of

PARKED_MAX = 10_000
"""Rows of deliveries that are kept at most until their source is named."""

RETAIN_S = 10.0
"""How long a certified block is kept for late cuts and late deliveries, and these for who may ask
for them, in seconds."""

LATE_MAX = 1_000
"""Blocks and endpoints of which late deliveries wait at most; then they are judged at once."""

CLASSES = {one.letter: one.value for one in MessageClass}
"""Letter of an ingress topic -> the class of what is published there."""


class LateKey(NamedTuple):
    """Deliveries to one endpoint of a block that was certified for good."""

    place: TopicPartition
    block: int
    endpoint: EndpointKey


@dataclass(slots=True)
class Late:
    """These deliveries.

    Attributes:
        since_s: When the first was read, on the auditor's clock.
        first: Lowest source offset.
        last: Highest one.
        receipt: What came.
    """

    since_s: float
    first: int
    last: int
    receipt: Receipt = field(default_factory=Receipt)


@dataclass(slots=True)
class Aside:
    """These deliveries.

    Attributes:
        parked: Those whose source nobody has named yet.
        late: Those of blocks that were certified for good.
        mislabelled: What says another class than that of its ingress, or names a topic that is no
            ingress, to be told.
    """

    parked: dict[StrangerKey, Stranger] = field(default_factory=dict)
    late: dict[LateKey, Late] = field(default_factory=dict)
    mislabelled: list[Finding] = field(default_factory=list)

    def published(
        self, prefix: str, rows: Sequence[DeliveryRow], names: Names, now_s: float
    ) -> Iterator[tuple[TopicPartition, DeliveryRow]]:
        """Yield what clients have published, with its ingress partition; also what was parked.

        Args:
            prefix: Start of every topic name.
            rows: What was delivered in a batch.
            names: Of topics.
            now_s: The auditor's clock, in seconds.
        """
        named = [key for key in self.parked if names.place(key.source) is not None]
        known = [row for key in named for row in self.parked.pop(key).rows]
        places: dict[SourceKey, TopicPartition | None] = {}
        for row in (*known, *rows):
            if (place := places.get(row.source)) is None:
                place = places[row.source] = names.place(row.source)
            if place is None:
                key = StrangerKey(row.place.topic, row.source)
                self.parked.setdefault(key, Stranger(now_s)).rows.append(row)
                continue
            source = place_of(prefix, place.topic)
            if source.kind != INGRESS:
                self.mislabelled.append(never_published_finding(prefix, place, row))
                continue
            if row.message_class != CLASSES.get(source.letter):
                self.mislabelled.append(mislabelled_finding(prefix, place, row))
            yield place, row

    def take_late(
        self, place: TopicPartition, endpoint: EndpointKey, row: DeliveryRow, now_s: float
    ) -> None:
        """Take deliveries of a block that was certified for good."""
        key = LateKey(place, row.block, endpoint)
        late = self.late.setdefault(key, Late(now_s, row.first, row.last))
        late.first, late.last = min(late.first, row.first), max(late.last, row.last)
        late.receipt.take(row)

    def take_mislabelled(self) -> Sequence[Finding]:
        """Return the deliveries that say what cannot be, once."""
        taken = list(self.mislabelled)
        self.mislabelled.clear()
        return taken

    def forged(self, prefix: str, now_s: float) -> Iterator[Finding]:
        """Yield what was delivered of sources that no Kafka cluster has, and drop it.

        Args:
            prefix: Start of every topic name.
            now_s: All that was written before this moment has been read.
        """
        is_full = sum(len(one.rows) for one in self.parked.values()) > PARKED_MAX
        for key, stranger in list(self.parked.items()):
            if is_full or now_s - stranger.since_s >= UNNAMED_S:
                yield forged_finding(prefix, key, self.parked.pop(key).rows)

    def ripe(self, now_s: float) -> Mapping[LateKey, Late]:
        """Return what came too late for its block, once who asks for it must have been read.

        Args:
            now_s: All that was written before this moment has been read.
        """
        is_full = len(self.late) > LATE_MAX
        return {
            key: one for key, one in self.late.items() if is_full or now_s - one.since_s >= RETAIN_S
        }

    def go_ahead(self, ahead_s: float) -> None:
        """Go on by a clock that is so far ahead."""
        for stranger in self.parked.values():
            stranger.since_s += ahead_s
        for late in self.late.values():
            late.since_s += ahead_s

    def forget_recreated(self, place: TopicPartition) -> None:
        """Forget what came late of an ingress that was recreated."""
        self.late = {key: one for key, one in self.late.items() if key.place != place}
